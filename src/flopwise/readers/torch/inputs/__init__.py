"""The arguments that a module is called with.

Comes in: shapes, texts, tensors or nothing, as a caller describes them. Goes out: arguments for a run, and the graph
tensor of each tensor inside them.
"""
