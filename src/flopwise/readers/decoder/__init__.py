"""Decoders of four families from their configuration alone, where PyTorch and transformers are not there: in a browser.

Comes in: a ``config.json``. Goes out: the graph of the program that transformers would run, operator by operator.
"""
