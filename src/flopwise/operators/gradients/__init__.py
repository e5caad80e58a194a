"""The backward pass of each operator: what it computes, and what the forward pass must keep for it."""
