"""What to change in a model, with the figures that say how much it saves."""
