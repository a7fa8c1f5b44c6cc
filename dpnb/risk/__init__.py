"""Disclosure risk within one table: which people an epsilon exposes."""
