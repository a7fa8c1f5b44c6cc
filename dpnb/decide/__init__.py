"""Decisions: which groups meet a condition, with bounded errors (ProBE, corrected; spec/probe.md)."""
