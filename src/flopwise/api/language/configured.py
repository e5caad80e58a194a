"""A language model by its configuration alone as a program that is profiled step by step."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest

from flopwise.analyses.llm.program import Call
from flopwise.analyses.timing.quantities import stored_most, stored_numbers
from flopwise.api.language.program import KV_DTYPES, USUAL_PROMPT, encoder_notes
from flopwise.api.profile import profile
from flopwise.errors import InputError
from flopwise.formats.language.graph import decoder_graph
from flopwise.formats.language.parts import Decoder, LatentAttention, Layer
from flopwise.formats.language.read import Language, in_table, language
from flopwise.formats.language.state import lengths_of, state_of
from flopwise.formats.language.towers import with_images
from flopwise.graph.dtypes import BITS
from flopwise.profiles.profile import Profile

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
    """A language model of the table of architectures; see ``analyses/llm/program.Program``."""

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
