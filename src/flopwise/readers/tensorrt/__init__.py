"""Layers of TensorRT's engines as operators: for recorded times, and for the format that ``flopwise-tensorrt`` adds."""
