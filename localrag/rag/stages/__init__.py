"""The stages of an answer, one verb a file; `rag.pipeline` runs them."""
