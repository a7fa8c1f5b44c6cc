"""Decisions: which groups meet a condition, with bounded errors; see docs/methods/probe.md."""
