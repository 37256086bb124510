"""Long documents on a page: sentences are chosen without a model, written by it, and checked."""
