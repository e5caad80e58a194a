"""The operators of ONNX's own domains, a file for each family.

Comes in: a node. Goes out: its counts.
"""
