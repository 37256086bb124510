"""Prompting, answering, checking: the ways from a question to an answer."""
