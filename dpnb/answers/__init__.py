"""Released numbers with their intervals, and questions about them."""
