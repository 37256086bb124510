"""Measuring: retrieval, grades, answers by a judge, and one setup against another."""
