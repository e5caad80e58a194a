"""Images and sound before the prompt of a language model, as tokens and as stages of their own."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flopwise.analyses.llm.stages.stage import Stage, stage_of
from flopwise.api.language.diffusion import pixels
from flopwise.api.profile import profile
from flopwise.errors import InputError, ModelError
from flopwise.formats.language.source import FILE, HUB, content_on_hub
from flopwise.formats.language.towers import Encoded, frames_per_second, image_of, sound_of
from flopwise.formats.sources.text import JsonObject, json_object

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference

#: The file beside a configuration that says how images and sound are prepared.
PROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True)
class Media:
    """Images and sound of each sequence."""

    #: What is encoded, by what it is called, and how often for all sequences.
    encoded: Mapping[str, tuple[Encoded, int]] = field(default_factory=dict)
    #: Tokens of each sequence that they stand for, and tokens that layers attend to beside the prompt.
    tokens: int = 0
    crossed: int = 0
    #: Sequences that the sound of each makes, where an encoder's windows go through the model one by one; and the
    #: length of the prompt that it is, where the encoder reads it as the prompt.
    windows: int = 1
    prompt: int | None = None
    notes: tuple[str, ...] = ()

    def staged(self, result: Inference, widths: Mapping[str, Fraction], types: Mapping[str, str]) -> Inference:
        """A request with these stages before it.

        Args:
            result: the request of a prompt that has the tokens of images and sound.
            widths: bytes of each element of stored tensors, by name, where they differ from the program's.
            types: the element types that they are stored in, by name.
        """
        if not self.notes:
            return result
        stages: list[Stage] = []
        notes = list(self.notes)
        for name, (encoded, calls) in self.encoded.items():
            counted = profile(encoded.graph)
            stages.append(stage_of(counted, name, calls, 1, widths=widths, types=types))
            notes += [f"{name}: {note}" for note in (*encoded.notes, *counted.notes)]
        memory = result.memory
        sizes = [(stage.workspace_bytes or 0, 0) for stage in stages]
        if memory is not None and sizes:
            shares = (*memory.workspace.shares, *sizes)
            memory = replace(memory, workspace=replace(memory.workspace, shares=shares))
        media = tuple(stages)
        return replace(result, media=media, media_tokens=self.tokens, memory=memory, notes=(*notes, *result.notes))


@dataclass(frozen=True)
class Asked:
    """The images and the sound of a request: the size of each image, images and seconds of each sequence."""

    image: str | None = None
    images: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that are out of range.

        Raises:
            InputError: one is.
        """
        if operator.index(self.images) < 1:
            raise InputError(f"images {self.images}: must be at least 1")
        if self.image is None and self.images != 1:
            raise InputError("images: give the size of an image as well")
        if self.seconds is not None and not 0 < self.seconds <= 1e6:
            raise InputError(f"seconds {self.seconds:g}: must be above 0 and at most 1,000,000")

    def of(self, content: JsonObject, model: object, name: str, width: int, dtype: str, batch: int) -> Media:
        """Tokens and stages that a model makes of images and sound.

        Args:
            content: its configuration.
            model: as in ``flopwise.llm``; beside it the settings of its processor may lie.
            name: what it is called in messages.
            width: of the part that generates text.
            dtype: the element type that it multiplies.
            batch: sequences.

        Raises:
            InputError: it takes no images or no sound, or what reads them is not in the table of architectures.
            ModelError: a setting of its processor is none that can be.
        """
        if self.image is None and self.seconds is None:
            return Media()
        settings, encoded = settings_of(model), {}
        tokens, crossed, notes = 0, 0, []
        if self.image is not None:
            size = pixels("image", self.image)
            one = image_of(content, settings, name, width, dtype, *size)
            what = f"{self.images:,} image{'' if self.images == 1 else 's'} of {size[0]:,} × {size[1]:,}"
            encoded[what] = one, self.images * batch
            tokens, crossed = self.images * one.tokens, self.images * one.crossed
            notes.append(f"{what}: {tokens:,} tokens of each sequence; other words around an image are of the prompt")
            if crossed:
                notes.append(
                    f"{what}: layers attend to {crossed:,} positions beside the prompt, tiles left empty among them"
                )
        if self.seconds is None:
            return Media(encoded, tokens, crossed, notes=tuple(notes))
        sound = sound_of(content, settings, name, width, dtype, self.seconds)
        what = f"{self.seconds:g} s of sound"
        encoded[what] = sound, batch
        notes.append(f"{what}: {sound.tokens:,} tokens of each sequence")
        return Media(encoded, tokens + sound.tokens, crossed, notes=tuple(notes))

    def read_as_prompt(self, model: object, positions: int | None, samples: bool) -> Media:
        """Sound that an encoder with a decoder reads: in windows of one length, or as a prompt of so many samples.

        Args:
            model: as in ``flopwise.llm``.
            positions: of the encoder, two frames each; None where it reads as many as there are.
            samples: whether it reads samples of sound as they are.

        Raises:
            InputError: there is an image, or the encoder reads no sound.
        """
        if self.seconds is None and self.image is None:
            return Media()
        if self.image is not None or self.seconds is None or not (positions or samples):
            raise InputError(
                "an encoder with a decoder of this type reads no images, and no sound whose frames are known"
            )
        settings = settings_of(model)
        if positions:
            length = 2 * positions / frames_per_second(settings)
            windows = math.ceil(self.seconds / length)
            each = f"{windows:,} window{'' if windows == 1 else 's'} of {length:g} s, each of them a sequence"
            return Media(windows=windows, notes=(f"{self.seconds:g} s of sound: {each}",))
        count = math.ceil(self.seconds * int(settings.get("sampling_rate", 16000)))
        return Media(prompt=count, notes=(f"{self.seconds:g} s of sound: a prompt of {count:,} samples",))


def settings_of(model: object) -> dict[str, Any]:
    """The settings of the processor beside a configuration; empty where there are none."""
    if not isinstance(model, (str, os.PathLike)):
        return {}
    name = os.fsdecode(model)
    if name.startswith(HUB):
        with suppress(ModelError):
            return dict(content_on_hub(name, PROCESSOR))
        return {}
    folder = name if os.path.isfile(os.path.join(name, FILE)) else os.path.dirname(name)
    joint = json_object(os.path.join(folder, "processor_config.json")).get("image_processor")
    return json_object(os.path.join(folder, PROCESSOR)) or (joint if isinstance(joint, dict) else {})
