"""Sizes through a graph: from the expressions of a model's inputs to those of every tensor, operator by operator."""
