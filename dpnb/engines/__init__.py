"""Engines compute exact integer vectors; nothing here leaves the curator."""
