"""Models side by side: which layers belong together, and how their figures differ."""
