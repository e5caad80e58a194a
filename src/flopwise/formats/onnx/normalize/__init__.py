"""Models of every age brought to one form before their shapes are inferred."""
