"""Models written back to files."""
