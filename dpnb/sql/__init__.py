"""From SQL text to checked queries."""
