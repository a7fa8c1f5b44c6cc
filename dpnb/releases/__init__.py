"""From a statement to what it measures, how finely and at what cost."""
