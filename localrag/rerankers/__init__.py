"""Putting the passages that were found into a better order: by keywords, or by models that read."""
