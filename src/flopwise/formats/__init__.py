"""Model formats, a folder for each, and what they share."""
