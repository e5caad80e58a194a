"""TensorFlow graphs: frozen graphs and SavedModels, read as protobuf by place, functions put in place of their calls.

Comes in: a ``.pb`` file, or the directory of a SavedModel. Goes out: a Graph. TensorFlow is not needed.
"""
