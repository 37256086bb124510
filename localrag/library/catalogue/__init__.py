"""The truth: one SQLite file."""
