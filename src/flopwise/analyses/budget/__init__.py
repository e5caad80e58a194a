"""Limits on what a model may cost, kept in a file beside it."""
