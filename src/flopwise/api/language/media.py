"""Images and sound before the prompt of a language model, as tokens and as stages of their own."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from flopwise.analyses.llm.stages.stage import Stage, stage_of
from flopwise.api.language.diffusion import pixels
from flopwise.api.profile import profile
from flopwise.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.llm.inference import Inference
    from flopwise.readers.torch.language.media import Encoded


@dataclass(frozen=True)
class Media:
    """Images and sound of each sequence."""

    #: What is encoded, by what it is called, and how often for all sequences.
    encoded: Mapping[str, tuple[Encoded, int]] = field(default_factory=dict)
    #: Tokens of each sequence that they stand for.
    tokens: int = 0
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
        stored = {f"model.{name}": width for name, width in widths.items()}
        kinds = {f"model.{name}": kind for name, kind in types.items()}
        stages: list[Stage] = []
        notes = list(self.notes)
        for name, (encoded, calls) in self.encoded.items():
            counted = profile(encoded.graph)
            stages.append(stage_of(counted, name, calls, 1, widths=stored, types=kinds))
            notes += [f"{name}: {note}" for note in (*encoded.notes, *counted.notes)]
        memory = result.memory
        sizes = [(stage.workspace_bytes or 0, 0) for stage in stages]
        if memory is not None and sizes:
            shares = (*memory.workspace.shares, *sizes)
            memory = replace(memory, workspace=replace(memory.workspace, shares=shares))
        media = tuple(stages)
        return replace(result, media=media, media_tokens=self.tokens, memory=memory, notes=(*notes, *result.notes))


def media_of(
    module: nn.Module,
    model: object,
    *,
    image: str | None,
    images: int,
    seconds: float | None,
    batch: int,
    progress: Callable[[str], None],
) -> Media:
    """The images and the sound of a request.

    Args:
        module: the model.
        model: as in ``flopwise.llm``.
        image: the size of each image.
        images: images of each sequence.
        seconds: of sound of each sequence.
        batch: sequences.
        progress: called with the name of each step.

    Raises:
        InputError: the model takes no images or no sound, or a number is out of range.
        ModelError: its processor or encoder fails.
    """
    if operator.index(images) < 1:
        raise InputError(f"images {images}: must be at least 1")
    if seconds is not None and not 0 < seconds <= 1e6:
        raise InputError(f"seconds {seconds:g}: must be above 0 and at most 1,000,000")
    encoded: dict[str, tuple[Encoded, int]] = {}
    tokens, notes = 0, []
    if image is not None:
        from flopwise.readers.torch.language.media import encoded_image

        width, height = pixels("image", image)
        progress("an image")
        one = encoded_image(module, model, width, height)
        name = f"{images:,} image{'' if images == 1 else 's'} of {width:,} × {height:,}"
        encoded[name] = one, images * batch
        tokens += images * one.tokens
        notes.append(
            f"{name}: {images * one.tokens:,} tokens of each sequence; words around an image are of the prompt"
        )
    if seconds is None:
        return Media(encoded, tokens, notes=tuple(notes))
    if getattr(module.config, "is_encoder_decoder", False):
        return replace(_read_as_prompt(module, model, seconds), encoded=encoded)
    from flopwise.readers.torch.language.media import encoded_sound

    progress("sound")
    sound = encoded_sound(module, model, seconds)
    name = f"{seconds:g} s of sound"
    encoded[name] = sound, batch
    notes.append(f"{name}: {sound.tokens:,} tokens of each sequence")
    return Media(encoded, tokens + sound.tokens, notes=tuple(notes))


def _read_as_prompt(module: object, model: object, seconds: float) -> Media:
    """Sound that an encoder with a decoder reads: in windows of one length, or as a prompt of so many frames.

    Raises:
        InputError: the encoder reads no sound.
    """
    from flopwise.readers.torch.language.media import sound_of_encoder

    sound = sound_of_encoder(module, model)
    if sound.seconds is not None:
        windows = math.ceil(seconds / sound.seconds)
        each = f"{windows:,} window{'' if windows == 1 else 's'} of {sound.seconds:g} s, each of them a sequence"
        return Media(windows=windows, notes=(f"{seconds:g} s of sound: {each}",))
    frames = math.ceil(seconds * sound.per_second)
    return Media(prompt=frames, notes=(f"{seconds:g} s of sound: a prompt of {frames:,} {sound.what}",))
