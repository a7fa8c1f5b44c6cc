"""Plans, their privacy costs, and the loop that carries requests out."""
