"""Where a library is: in a folder, or in PostgreSQL. `base` says what either has to do."""
