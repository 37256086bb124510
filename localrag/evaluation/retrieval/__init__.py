"""Searches measured on sets with judged passages."""
