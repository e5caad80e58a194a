"""Costs of the steps of a training loop: formulas and profiles by the shapes of batches, and rates beside a peak."""
