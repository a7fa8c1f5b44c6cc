"""What the card of each kind of result says."""
