"""Measuring: retrieval metrics, retrieval sets, and how long things take."""
