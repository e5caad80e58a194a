"""A language model as a program that is profiled step by step, by its configuration or by transformers; its devices."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING

from flopwise._kinds import described
from flopwise.analyses.llm.runs import Call, Program
from flopwise.analyses.timing.quantities import stored_most, stored_numbers
from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import InputError, ModelError
from flopwise.formats.language.graph import decoder_graph
from flopwise.formats.language.parts import Decoder, LatentAttention, Layer
from flopwise.formats.language.read import Language, defaults_of, in_table, language
from flopwise.formats.language.state import lengths_of, state_of
from flopwise.formats.language.towers import with_images
from flopwise.graph.dtypes import BITS
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.timing.device import Device
    from flopwise.formats.torch.language.state import Step

# The devices that a language model is run on, and how they share it.

#: More than the largest clusters have.
MOST_DEVICES = 1_000_000


def shares_of(ways: Mapping[str, int | None]) -> dict[str, int]:
    """The ways of dividing that were given."""
    return {way: operator.index(ranks) for way, ranks in ways.items() if ranks is not None}


def devices_of(device: str | None, gpus: int | None) -> tuple[int | None, Device | None]:
    """The number of devices that were asked for, and the device: ``2xh100``, or a name with the number beside it.

    Raises:
        InputError: no device goes by that name, or numbers are less than 1, differ or lack a device.
    """
    from flopwise.analyses.timing.machine import named

    if device is None:
        if gpus is not None:
            raise InputError(f"gpus {gpus}: give the device as well")
        return None, None
    several = re.fullmatch(r"(\d{1,9})\s*[x×]\s*(\S.*)", device.strip())
    where = named(several[2] if several else device)
    count = int(several[1]) if several else gpus
    if several and gpus not in (None, count):
        raise InputError(f"{device}: these are {count} devices, not {gpus}")
    if count is not None and not 1 <= count <= MOST_DEVICES:
        raise InputError(f"{count} devices: must be at least 1 and at most {MOST_DEVICES}")
    return count, where


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
    from flopwise.formats.torch.language.config import require

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
        from flopwise.formats.torch.language.model import language_model

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
    from flopwise.formats.torch.language.model import predicts_tokens
    from flopwise.formats.torch.language.state import longest_context

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
        from flopwise.formats.torch.language.model import head_notes, module_widths, predicts_tokens
        from flopwise.formats.torch.language.state import encoder_length, longest_context

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
            from flopwise.formats.torch.language.ways import shared

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
        from flopwise.formats.torch.language.state import step

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


# A language model by its configuration alone as a program that is profiled step by step.


_LATENTS = (
    "a step multiplies queries with latents, as engines do, where that is less; transformers' program expands the "
    "latents of the whole context to keys and values in every step"
)


def configured(
    model: object, trust_code: bool, dtype: str | None = None, weights: str | None = None
) -> Language | None:
    """A configuration of a type that the table of architectures has; None for anything else."""
    if not isinstance(model, (str, os.PathLike)) or not in_table(model, trust_code):
        return None
    return language(os.fsdecode(model), dtype, weights)


def usual_prompt_of(decoder: Decoder) -> int:
    """The tokens of a prompt where nobody says: 4,096, for an encoder no more than it was made for."""
    longest = None if decoder.predicts else decoder.longest
    return min(USUAL_PROMPT, longest or USUAL_PROMPT)


class ConfiguredProgram:
    """A language model of the table of architectures; see ``analyses/llm/runs.Program``."""

    def __init__(
        self, model: Language, source: object, kv_dtype: str | None = None, generate: int = 1, crossed: int = 0
    ) -> None:
        decoder = self.model = with_images(model.decoder) if crossed else model.decoder
        #: Positions that layers attend to beside the prompt: what a tower made of images.
        self._crossed = crossed
        self.name, self.source = decoder.name, os.fsdecode(source)  # type: ignore[arg-type] # a path or a name
        self.dtype, self.longest, self.predicts = decoder.dtype, decoder.longest, decoder.predicts
        encoder = decoder.encoder
        self.encodes = encoder is not None
        self.encoder_length = encoder.longest if encoder is not None and encoder.sound else None
        self.keeps_state = decoder.predicts and generate > 0
        width, state_type = KV_DTYPES[name] if (name := kv_dtype or model.cache) else (None, None)
        self._kv: Fraction | None = width
        self.state_type: str | None = state_type
        self.widths: Mapping[str, Fraction] = model.widths.elements
        self.types: Mapping[str, str] = stored_numbers(model.widths.types)
        self.weight_type = stored_most(model.widths.types, decoder.dtype)
        latents = any(isinstance(mixer, LatentAttention) for layer in decoder.layers for mixer in layer.mixers)
        own = (_LATENTS,) if latents and self.keeps_state else ()
        self.notes = (*model.notes, *model.widths.notes, *own, *encoder_notes(self))

    def profile(self, call: Call, batch: int) -> Profile:
        """The profile of a call, in which layers that are alike stand once.

        Raises:
            InputError: it has more tokens than there are positions.
        """
        if not self.predicts and self.model.positions and self.longest is not None and call.new > self.longest:
            raise InputError(
                f"{self.name}: {call.new:,} tokens are more than the {self.longest:,} that the model was made for"
            )
        return profile(decoder_graph(self.model, batch, call.new, call.past, False, call.encoded or self._crossed))

    @property
    def order(self) -> Sequence[Sequence[str]]:
        """For each layer the modules whose operators stand for it."""

        def stack(prefix: str, layers: Sequence[Layer]) -> list[str]:
            first: dict[Layer, int] = {}
            if any(layer.shared is not None for layer in layers):  # of which each has operators of its own
                return [f"{prefix}.{number}" for number in range(len(layers))]
            return [f"{prefix}.{first.setdefault(layer, number)}" for number, layer in enumerate(layers)]

        encoder = self.model.encoder
        stacks = (
            stack("encoder.layers", () if encoder is None else encoder.layers),
            stack("model.layers", self.model.layers),
        )
        return [[path for path in paths if path] for paths in zip_longest(*stacks)]

    def state(self, call: Call, batch: int) -> Mapping[str, int]:
        """Bytes of the state before a call, by tensor."""
        sizes: dict[str, int] = {}
        own = Fraction(BITS[self.dtype], 8)
        for number, layer in enumerate(self.model.layers):
            if layer.cross is not None:
                elements = batch * layer.cross.groups * (call.encoded or self._crossed) * layer.cross.head
                nbytes = round(elements * (self._kv or own))
                sizes.update({f"past_key_values.cross.layers.{number}.{name}": nbytes for name in ("keys", "values")})
            for mixer in layer.mixers:
                for name, (shape, dtype) in state_of(mixer, call.past).items():
                    stored = self._kv if name in ("keys", "values") else None
                    width = stored or (Fraction(BITS[dtype], 8) if dtype else own)
                    sizes[f"past_key_values.layers.{number}.{name}"] = round(batch * math.prod(shape) * width)
        return sizes

    def lengths(self, past: int) -> tuple[int, ...] | None:
        """Numbers along which the cost of a step after so many tokens is a straight line."""
        mixers = dict.fromkeys(mixer for layer in self.model.layers for mixer in layer.mixers)
        return tuple(n for mixer in mixers for n in lengths_of(mixer, past))
