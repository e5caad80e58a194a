"""The sparsity of stored weights: zeros, blocks, N:M patterns, whole channels, and the work that they save."""
