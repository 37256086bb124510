"""A library's catalogue in PostgreSQL, for many people and several nodes."""
