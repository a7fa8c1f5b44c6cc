"""Estimates and confidence intervals from released numbers alone."""
