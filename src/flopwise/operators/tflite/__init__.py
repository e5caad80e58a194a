"""Operators of TensorFlow Lite that ONNX has none for, under the name ``tflite::NAME`` (https://ai.google.dev/edge/litert)."""
