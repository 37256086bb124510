"""Files into a library, only what has changed, and nothing half."""
