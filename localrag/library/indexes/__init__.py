"""What is derived from the catalogue."""
