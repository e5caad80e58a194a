"""The builtin operators of TensorFlow Lite as operators of the house."""
