"""What is public about a table: its columns, their domains and bounds, the privacy unit."""
