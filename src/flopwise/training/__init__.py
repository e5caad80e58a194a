"""Training: the backward pass of each operator, what the forward pass keeps for it, and the optimizer."""
