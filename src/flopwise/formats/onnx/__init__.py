"""ONNX models.

Comes in: a file, bytes, a stream or a ModelProto, and the sizes of its inputs. Goes out: a Graph with resolved shapes.
"""
