"""Whom does an epsilon expose: disclosure risk within one table."""
