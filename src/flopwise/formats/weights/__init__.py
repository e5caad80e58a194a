"""Stored tensors of every kind of file.

Comes in: a model or a file with weights. Goes out: names, shapes, element types, and elements in a stream.
"""
