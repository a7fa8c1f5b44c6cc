"""SQL text to checked meaning."""
