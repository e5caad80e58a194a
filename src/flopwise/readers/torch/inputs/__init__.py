"""What a module is called with: from shapes, from tensors, or from its configuration."""
