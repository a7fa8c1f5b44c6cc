"""Tests of dpnb; what they share is in ``tests.kit``."""
