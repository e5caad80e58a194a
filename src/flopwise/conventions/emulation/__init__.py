"""How tools look at a program: as modules with hooks, as patched functions, or as dispatched kernels."""
