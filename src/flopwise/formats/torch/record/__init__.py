"""Recording what a module does while it runs.

Comes in: a module's tensors and what it calls, through PyTorch's function and dispatch modes. Goes out: events (one for
each operation, with graph tensors in place of PyTorch's), calls of modules, and the module as it was before.
"""
