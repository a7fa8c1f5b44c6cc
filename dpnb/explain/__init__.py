"""Explanations: which part of the data explains a difference (DPXPlain, phase 3)."""
