"""Key selection: finding the values of an undeclared column."""
