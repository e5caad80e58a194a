"""Advice on a model: changes, with the figures of what they save."""
