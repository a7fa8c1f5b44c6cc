"""Answers and inferences: released numbers, confidence intervals, and questions about them."""
