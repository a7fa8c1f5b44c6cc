"""Statements and inferences: released numbers with their confidence intervals, and questions about them."""
