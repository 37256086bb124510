"""The library on disk: SQLite is the truth, FAISS and the keyword index follow."""
