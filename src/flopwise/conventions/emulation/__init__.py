"""Views that tools have of a program: as modules with hooks, as patched functions, or as dispatched kernels."""
