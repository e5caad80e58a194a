"""A configuration of one of the four families as a graph, where PyTorch and transformers are not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from flopwise.errors import InputError
from flopwise.readers.inputs import input_specs
from flopwise.readers.options import TorchOptions

if TYPE_CHECKING:
    from flopwise.graph import Graph

#: Tokens of a call where nobody says.
USUAL_TOKENS = 128


def installed() -> bool:
    """True where PyTorch and transformers are there, which read every configuration."""
    from importlib.util import find_spec

    return find_spec("torch") is not None and find_spec("transformers") is not None


def read_decoder(model: object, inputs: Any, dims: Any, batch_size: int | None, options: TorchOptions) -> Graph:
    """The graph of a configuration.

    Args:
        model: path of a ``config.json`` or of the folder that holds one.
        inputs: the shape of ``input_ids``, batch and tokens; None: 1 and 128.
        dims: refused, as there are no named dimensions.
        batch_size: sequences.
        options: tokens of the cache and new ones.

    Raises:
        ModelError: the configuration is of another family, or says no size.
        InputError: inputs are not two numbers, or an option asks for more.
    """
    from flopwise.readers.decoder.config import NEEDS, decoder_of
    from flopwise.readers.decoder.graph import decoder_graph

    decoder = decoder_of(os.fspath(model))  # type: ignore[call-overload] # a path
    asked = dims or options.grad or options.mode == "train" or options.arguments or options.trust_code
    if asked or any(isinstance(size, str) for size in (options.past, options.new)):
        raise InputError(f"{decoder.source}: what is asked for {NEEDS}")
    batch, new, past = batch_size or 1, USUAL_TOKENS, options.past
    if past is not None:
        new = 1
    if options.new is not None:
        new = int(options.new)
    for spec in () if inputs is None else input_specs(inputs, ["input_ids"]):
        if len(spec.shape) != 2 or not all(isinstance(size, int) for size in spec.shape):
            raise InputError("input_ids: batch and tokens are expected, such as input_ids:int64:1x128")
        batch, new = (int(size) for size in spec.shape)
    return decoder_graph(decoder, batch, new, int(past or 0), masked=inputs is None and options.new is None)
