"""Which views were measured, how finely, and for whom."""
