"""Privacy losses, budgets, mechanisms, noise and noise paths."""
