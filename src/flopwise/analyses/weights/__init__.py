"""Statistics of stored elements, in a stream: what is said of them, and the loops that find it out."""
