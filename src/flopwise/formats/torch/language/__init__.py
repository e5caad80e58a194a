"""Language models from their configuration alone: transformers' own code builds the model and its cache.

Comes in: a ``config.json``, a folder with one, ``hf:org/name`` or a GGUF file. Goes out: a module without memory for
its weights, and the inputs of a step with so many tokens in the cache.
"""
