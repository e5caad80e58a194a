"""Times of a model: floors from a device's peaks, floors from an engine's own kernels, and the measured time."""
