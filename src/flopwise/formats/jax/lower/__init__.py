"""Primitives of JAX in the vocabulary of ONNX, and what runs programs of its own."""
