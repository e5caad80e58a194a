"""What each layer type becomes: an operator with its shapes, a file for each family."""
