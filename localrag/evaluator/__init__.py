"""Evaluation as an application: it reads settings, opens libraries and loads models."""
