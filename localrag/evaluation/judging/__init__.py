"""The language model as judge, what it is asked, and how far it can be trusted."""
