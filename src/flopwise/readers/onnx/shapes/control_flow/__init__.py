"""The bodies of ONNX control flow: how often each runs, with which shapes, and what comes out of it.

A body is resolved like a model of its own, with the types and values that flow into it. Where the iterations of a loop
differ in shape, or a condition that can be computed ends it, the iterations are followed one by one.
"""
