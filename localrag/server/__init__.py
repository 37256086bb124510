"""The local server: one process that owns the models, for a page and for other people's clients."""
