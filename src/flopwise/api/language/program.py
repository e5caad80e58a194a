"""A language model of transformers as a program that is profiled step by step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from flopwise._kinds import described
from flopwise.analyses.llm.program import Call, Program
from flopwise.analyses.timing.quantities import stored_most, stored_numbers
from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import InputError, ModelError
from flopwise.formats.language.read import defaults_of

if TYPE_CHECKING:
    from torch import nn

    from flopwise.profiles.profile import Profile
    from flopwise.readers.torch.language.state import Step

#: Tokens of a prompt where nobody says.
USUAL_PROMPT = 4096

#: Element types of the state by the names that serving engines use: bytes of an element, and the type it computes in.
KV_DTYPES: dict[str, tuple[Fraction, str]] = {
    "fp32": (Fraction(4), "float32"),
    "fp16": (Fraction(2), "float16"),
    "bf16": (Fraction(2), "bfloat16"),
    "fp8": (Fraction(1), "float8e4m3fn"),
    "int8": (Fraction(1), "int8"),
    "int4": (Fraction(1, 2), "int4"),
    "nvfp4": (Fraction(9, 16), "float4e2m1"),
    "q8_0": (Fraction(34, 32), "int8"),
    "q5_1": (Fraction(24, 32), "int8"),
    "q5_0": (Fraction(22, 32), "int8"),
    "q4_1": (Fraction(20, 32), "int4"),
    "q4_0": (Fraction(18, 32), "int4"),
}


def language_module(model: object, dtype: str | None, trust_code: bool) -> nn.Module:
    """The module of a model.

    Raises:
        InputError: it is not a language model.
    """
    from flopwise.formats.language.source import GGUF, LIBRARY, is_language_model
    from flopwise.readers.torch.language.config import require

    if isinstance(model, (str, os.PathLike)):
        name = os.fsdecode(model)
        if not is_language_model(name) and not name.startswith(LIBRARY):
            from flopwise.formats.sources.location import is_callable
            from flopwise.formats.sources.source import missing

            if not os.path.exists(name) and not is_callable(name):
                raise InputError(f"{name}: {missing(name)}")
            if not name.lower().endswith((GGUF, ".json")):
                raise InputError(
                    f"{name}: is not a language model: give a config.json, a folder with one, hf:ORG/NAME or a GGUF "
                    "file"
                )
        require(model, trust_code)
        from flopwise.readers.torch.language.model import language_model

        return language_model(model, dtype, trust_code)
    config = getattr(model, "config", None)
    if not hasattr(config, "model_type"):
        raise InputError(
            f"llm(model=...): expected a model of transformers, which makes the cache, or the path or name of one, "
            f"not {described(model)}"
        )
    return model  # type: ignore[return-value]


def usual_prompt(module: nn.Module) -> int:
    """The tokens of a prompt where nobody says: 4,096, for an encoder no more than it was made for."""
    from flopwise.readers.torch.language.model import predicts_tokens
    from flopwise.readers.torch.language.state import longest_context

    longest = None if predicts_tokens(module) else longest_context(module)
    return min(USUAL_PROMPT, longest or USUAL_PROMPT)


def cache_type(name: str | None) -> str | None:
    """The element type of a cache as the tables have it; None for the model's own.

    Raises:
        InputError: its name is unknown.
    """
    if name is not None and name.lower() not in KV_DTYPES:
        raise InputError(f"unknown element type {name!r} of the cache; known: {', '.join(KV_DTYPES)}")
    return name.lower() if name else None


def encoder_notes(program: Program) -> Iterator[str]:
    """Notes on the encoder of a program."""
    if program.encoder_length is not None:
        yield (
            f"the encoder always reads {program.encoder_length:,} positions, which stand for the prompt; the decoder "
            f"starts with one token and alone goes on"
        )
    elif program.encodes:
        yield "the encoder reads the prompt once; the decoder starts with one token and alone goes on"


class LanguageProgram:
    """A model of transformers as a program that can be profiled step by step."""

    def __init__(
        self,
        module: nn.Module,
        model: object,
        kv_dtype: str | None,
        weights: str | None = None,
        generate: int = 1,
    ) -> None:
        from flopwise.readers.torch.language.model import head_notes, predicts_tokens
        from flopwise.readers.torch.language.state import encoder_length, longest_context
        from flopwise.readers.torch.language.widths import module_widths

        text = isinstance(model, (str, os.PathLike))
        source = os.fsdecode(model) if text else type(module).__name__  # type: ignore[arg-type]
        self._module = module
        width, state_type = KV_DTYPES[kv_dtype] if kv_dtype else (None, None)
        self._kv: Fraction | None = width
        self.state_type: str | None = state_type
        self._steps: dict[tuple[Call, int], Step] = {}
        self.name = type(module).__name__
        self.source = source
        self.dtype = str(next(module.parameters()).dtype).removeprefix("torch.")
        stored = module_widths(module, model, weights)
        self.widths: Mapping[str, Fraction] = stored.elements
        self.types: Mapping[str, str] = stored_numbers(stored.types)
        self.weight_type = stored_most(stored.types, self.dtype)
        self.longest: int | None = longest_context(module)
        self.encodes = bool(getattr(module.config, "is_encoder_decoder", False))
        self.encoder_length: int | None = encoder_length(module)
        self.predicts = predicts_tokens(module)
        self.keeps_state = self.predicts and generate > 0
        named = head_notes(module, model) if text else ()  # type: ignore[arg-type]
        self.notes: tuple[str, ...] = (*named, *defaults_of(model), *stored.notes, *encoder_notes(self))

    #: Every layer has operators of its own, and what a step costs is found by running it.
    order: Sequence[Sequence[str]] | None = None

    def lengths(self, past: int) -> tuple[int, ...] | None:
        """None: the lengths that the cost of a step follows from are not known."""
        return None

    def profile(self, call: Call, batch: int) -> Profile:
        """The profile of a call.

        Raises:
            InputError: it fails, and goes through more tokens than the model was made for.
        """
        with self._within_length(call):
            from flopwise.readers.torch.language.ways import shared

            return profile(shared(read(self._module, self._step(call, batch).inputs), self._module))

    def state(self, call: Call, batch: int) -> Mapping[str, int]:
        """Bytes of the state before a call, by tensor."""
        sizes: dict[str, int] = {}
        for name, tensor in self._step(call, batch).state.items():
            cached = name.rpartition(".")[2] in ("keys", "values")
            width = self._kv if cached and self._kv is not None else Fraction(tensor.element_size())
            sizes[name] = round(tensor.numel() * width)
        return sizes

    def _step(self, call: Call, batch: int) -> Step:
        from flopwise.readers.torch.language.state import step

        key = call, batch
        if key not in self._steps:
            with self._within_length(call):
                self._steps[key] = step(self._module, call.past, call.new, batch, call.encoded)
        return self._steps[key]

    @contextlib.contextmanager
    def _within_length(self, call: Call) -> Iterator[None]:
        """Say of a call that fails that it is too long, where it is.

        Raises:
            InputError: it is.
        """
        try:
            yield
        except ModelError as error:
            tokens = call.past + call.new if call.encoded is None else max(call.past + call.new, call.encoded)
            if self.longest is None or tokens <= self.longest:
                raise
            raise InputError(
                f"{self.name}: {tokens:,} tokens are more than the {self.longest:,} that the model was made for"
            ) from error
