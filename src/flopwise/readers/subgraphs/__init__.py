"""The common part of readers of files with subgraphs whose axes have other orders: TensorFlow Lite and TensorFlow.

Comes in: tensors, operators lowered to those of the house, and their bodies. Goes out: shapes by the one engine, and
the nodes and tensors of a Graph.
"""
