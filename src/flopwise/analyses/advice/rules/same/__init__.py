"""Changes after which the result is the same, up to rounding."""
