"""The public functions: read a model, count it, compare it, write it."""
