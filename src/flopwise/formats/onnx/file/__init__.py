"""The bytes of an ONNX file: its graph without the weights, and where the weights lie."""
