"""The cost of a language model's steps: prefill, decoding, the cache, what fits, and a step of training.

Comes in: profiles of single steps, made by whoever can run the model. Goes out: an
``flopwise.analyses.llm.inference.Inference`` or a ``flopwise.analyses.llm.training.TrainingStep``.
"""
