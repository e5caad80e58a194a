"""Keras 3 models, rebuilt from their configuration without weights and read as the programs of Keras' own backend.

Comes in: a ``.keras`` archive, an ``.h5`` file, a model object, or a callable of Keras' by name. Goes out: a Graph. No
code of a file runs, and no weight is read.
"""
