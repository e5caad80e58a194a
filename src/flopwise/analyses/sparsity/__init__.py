"""How sparse stored weights are: zeros, blocks, N:M patterns, whole channels, and the work that they save."""
