"""A GGUF model in this process."""
