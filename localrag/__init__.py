"""Local-first retrieval-augmented generation for Chinese and English documents."""

__version__ = "0.1.0"
