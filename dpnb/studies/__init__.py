"""The papers' methods as they were published."""
