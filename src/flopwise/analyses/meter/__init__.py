"""What each step of a training loop costs: formulas and profiles by the shapes of batches, and rates beside a peak."""
