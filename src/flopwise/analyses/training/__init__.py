"""One training step: which operators run backward, what the forward pass keeps, and the optimizer."""
