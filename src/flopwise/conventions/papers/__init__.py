"""One file for each publication whose way of counting is reproduced."""
