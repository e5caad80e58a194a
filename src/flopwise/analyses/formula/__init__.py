"""Costs as closed formulas in the symbols of a model: sizes are followed through it once, and profiles compared."""
