"""Executed nodes on the rows of a model, without running an engine: by names, sizes and order."""
