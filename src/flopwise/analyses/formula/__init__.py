"""Costs as closed formulas in the symbols of a model: fitted to its shapes at a few sizes, and proven by comparison."""
