"""PyTorch modules and programs.

Comes in: a module, a file of PyTorch's or the name of a callable, and its inputs. Goes out: a Graph
with resolved shapes.
"""
