"""The part that only the owner of the data may see and change."""
