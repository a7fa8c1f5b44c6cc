"""Which values a column has that nobody declared."""
