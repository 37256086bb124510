"""The truth: one SQLite file, or the tables of a PostgreSQL database."""
