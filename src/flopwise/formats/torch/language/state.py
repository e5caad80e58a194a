"""The state of a language model after so many tokens: transformers makes it, on tensors without memory.

The model runs once over the tokens; what it returns under a name that its ``forward()`` takes is its state, whatever it
is called (``past_key_values``, ``cache``, ``state``). A model that returns none is an error: a release
that renames its state looks the same.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError
from flopwise.formats.inputs import Dims
from flopwise.formats.sources.text import JsonObject
from flopwise.formats.torch.arguments import STATES, argument_name, configured
from flopwise.formats.torch.containers import copied, tensors_inside
from flopwise.formats.torch.kinds import Kwargs, Model
from flopwise.formats.torch.read import result_of


@dataclass(frozen=True)
class Step:
    """One call of a language model."""

    #: The keyword arguments of ``forward()``.
    inputs: JsonObject
    #: Tokens in the state before the call, and tokens that it adds.
    past: int
    new: int
    #: The tensors of the state, by name ("past_key_values.0.keys").
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state."""
        return sum(tensor.nbytes for tensor in self.state.values())


def step(model: nn.Module, past: int = 0, new: int = 1, batch: int = 1, encoded: int | None = None) -> Step:
    """The arguments of a call that adds tokens to those in the state, on tensors without memory.

    Args:
        model: a model of transformers.
        past: tokens in the state.
        new: tokens that are fed now, for each sequence.
        batch: sequences.
        encoded: tokens that an encoder read before the call; None: as many as are in the state.

    Raises:
        InputError: a number is out of range, or the model returns no state.
        ModelError: the model fails while it makes its state.
    """
    if batch < 1 or new < 1 or past < 0:
        low = f"batch {batch}" if batch < 1 else f"new {new}" if new < 1 else f"past {past}"
        raise InputError(f"{low}: batch and new tokens are at least 1, past tokens at least 0")
    encoder = bool(getattr(model.config, "is_encoder_decoder", False))
    takes = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    if "input_ids" not in takes and main in takes and not (encoder and "decoder_input_ids" in takes):
        raise InputError(f"{type(model).__name__} takes {main}, not tokens, so it is not a language model")
    if past == 0:
        return Step(_tokens(model, new, batch, encoded), 0, new)
    state, extra = _state_after(model, past, batch, encoder, encoded)
    inputs = {**_tokens(model, new, batch, encoded), **extra, **state}
    if "encoder_outputs" in inputs:
        for name in encoder_inputs(model, 1, batch):
            inputs.pop(name)
    named = ((argument_name(model, key), value) for key, value in state.items())
    tensors = {name: tensor for key, value in named for name, tensor in state_tensors(value, key)}
    return Step(inputs, past, new, tensors)


#: Part of the names by which caches call the length of a window, which is no count of tokens.
_WINDOW = "window"


def carry(inputs: Mapping[str, object], sizes: Mapping[int, int]) -> None:
    """Put sizes that carry expressions in place of the numbers that the caches among the inputs keep of themselves.

    Args:
        inputs: the arguments of a step.
        sizes: number -> size of that value.
    """
    for part in _cache_parts(inputs):
        held = getattr(part, "__dict__", {})
        counters = [(name, n) for name, n in held.items() if type(n) is int and n in sizes and _WINDOW not in name]
        held.update((name, sizes[n]) for name, n in counters)


def windows(inputs: Mapping[str, object]) -> list[int]:
    """The lengths of the windows that the caches among the inputs of a step name, in tokens."""
    held = [(name, size) for part in _cache_parts(inputs) for name, size in getattr(part, "__dict__", {}).items()]
    return [size for name, size in held if type(size) is int and _WINDOW in name]


def _cache_parts(inputs: Mapping[str, object]) -> Iterator[object]:
    """The inputs of a step, the caches that others hold, and the layers of each."""
    for value in inputs.values():
        inner = [getattr(value, name, None) for name in ("self_attention_cache", "cross_attention_cache")]
        for cache in (value, *inner):
            yield from (cache, *getattr(cache, "layers", ()))


def training_inputs(model: nn.Module, batch: int, sequence: int) -> Kwargs:
    """The arguments of a training step on tensors without memory: tokens, and the labels where the model has a loss."""
    inputs = _tokens(model, sequence, batch)
    takes = inspect.signature(model.forward).parameters
    if "labels" in takes:
        inputs["labels"] = inputs.get("decoder_input_ids", inputs.get("input_ids"))
        inputs.pop("decoder_input_ids", None)  # the model shifts the labels itself
    return {**inputs, "use_cache": False} if "use_cache" in takes else inputs


#: What a configuration calls its longest context.
_LONGEST = ("max_target_positions", "max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def longest_context(model: Model) -> int | None:
    """The most tokens that a model of transformers was made for; None where its configuration does not say.

    Raises:
        InputError: it is not a model of transformers.
    """
    if not hasattr(getattr(model, "config", None), "model_type"):
        raise InputError(f"{type(model).__name__}: past and new tokens are for models of transformers")
    config = model.config.get_text_config(decoder=True)
    lengths = [getattr(config, name, None) for name in _LONGEST]
    longest = next((n for n in lengths if isinstance(n, int) and n > 0), None)
    return None if longest is None else longest - _padded_positions(model)


def _padded_positions(model: Model) -> int:
    """The positions before the first token's, such as RoBERTa's, which count from behind that of the padding."""
    tables = (part for path, part in model.named_modules() if path.endswith("position_embeddings"))
    return next((part.padding_idx + 1 for part in tables if getattr(part, "padding_idx", None) is not None), 0)


def encoder_length(model: nn.Module) -> int | None:
    """The positions that an encoder reads whatever the length of a prompt; None where it reads as many as there are."""
    short, longer = (encoder_inputs(model, length, 1) for length in (16, 48))
    if not short or short != longer or "input_ids" in short:
        return None
    outputs = step(model, 1, 1, 1).inputs.get("encoder_outputs")
    return int(outputs[0].shape[1]) if outputs is not None else None


def encoder_inputs(model: nn.Module, count: int, batch: int) -> Kwargs:
    """The shapes of an encoder's inputs: tokens, or the sound or image that its configuration describes."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return {}
    takes = list(inspect.signature(model.forward).parameters)
    if getattr(model, "main_input_name", "input_ids") == "input_ids" and "input_ids" in takes:
        return {"input_ids": (batch, count)}
    shapes = configured(model, takes, Dims({"batch": batch, "sequence": count})) or {}
    return {name: shape for name, shape in shapes.items() if not name.startswith("decoder_")}


def _tokens(model: nn.Module, count: int, batch: int, encoded: int | None = None) -> Kwargs:
    """The shapes of token ids; an encoder gets as many of them as the decoder, or as many as are named."""
    encoder = encoder_inputs(model, encoded or count, batch)
    return {**encoder, ("decoder_input_ids" if encoder else "input_ids"): (batch, count)}


def _state_after(model: nn.Module, past: int, batch: int, encoder: bool, encoded: int | None) -> tuple[Kwargs, Kwargs]:
    """The state after some tokens, and what else the next call needs.

    Raises:
        InputError: the model returns no state.
        ModelError: it fails.
    """
    inputs = _tokens(model, past, batch, encoded)
    takes = inspect.signature(model.forward).parameters
    fixed = encoder and getattr(model.config, "use_cache", False)  # some encoders refuse what is for the decoder
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values()) and getattr(model.config, "use_cache", True)
    if not fixed and ("use_cache" in takes or open_ended):
        inputs["use_cache"] = True
    with _encoder_outputs(model if encoder else None) as outputs:

        def kept(returned: object) -> tuple[Kwargs, list[Any]]:
            result = dict(returned.items()) if hasattr(returned, "items") else {}
            states = {name: _own(result[name]) for name in STATES if result.get(name) is not None and name in takes}
            encoded = [_own(output) for output in outputs]
            outputs.clear()
            return states, encoded

        state, encoder_outputs = result_of(model, inputs, kept)
    if not state:
        import transformers

        raise InputError(
            f"{type(model).__name__} of transformers {transformers.__version__} returns no state that flopwise knows "
            f"({', '.join(STATES)}), so a step after past tokens cannot be counted; "
            "flopwise llm --generate 0 counts the prompt alone"
        )
    extra: Kwargs = {"use_cache": True} if "use_cache" in inputs else {}
    if encoder and encoder_outputs:
        extra["encoder_outputs"] = encoder_outputs[0]
    return state, extra


@contextlib.contextmanager
def _encoder_outputs(model: Model) -> Iterator[list[object]]:
    """The outputs of a model's encoder while it runs, which the next call is handed; empty without a model."""
    encoded: list[object] = []
    if model is None:
        yield encoded
        return
    handle = model.get_encoder().register_forward_hook(lambda part, inputs, output: encoded.append(output))
    try:
        yield encoded
    finally:
        handle.remove()


def _own(value: object) -> Any:
    """A copy of a result with tensors that no run knows: without memory, or with elements where these are known."""

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        values = getattr(tensor, "_flopwise_values", None)
        if values is not None:
            return torch.as_tensor(values).clone()
        return torch.empty_like(tensor, device="meta", requires_grad=False)

    return copied(value, {id(tensor): fresh(tensor) for _, tensor in tensors_inside(value)})


def state_tensors(value: object, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a state, by name, without what a cache notes for itself (counters, ``_...``)."""
    for path, tensor in tensors_inside(value, name):
        if tensor.dim() and not path.rpartition(".")[2].startswith("_"):
            yield path, tensor
