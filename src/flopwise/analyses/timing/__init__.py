"""How long a model takes: floors from a device's peaks, floors from an engine's own kernels, and the measured time."""
