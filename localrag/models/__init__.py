"""Models: which exist, embeddings, language models."""
