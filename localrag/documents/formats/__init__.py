"""One module a format, and the table of them (`table.py`)."""
