"""Cell and line magics."""
