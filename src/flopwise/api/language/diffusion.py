"""``flopwise.diffusion``: what an image or a video of a diffusion pipeline costs."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable
from dataclasses import replace

from flopwise._arguments import checked
from flopwise.analyses.llm.serving.serving import Engine
from flopwise.analyses.llm.stages.diffusion import Component, Diffusion, notes_on_floors
from flopwise.analyses.llm.stages.stage import Stage, stage_of
from flopwise.api.profile import profile
from flopwise.errors import InputError

#: Tokens of a prompt where nobody says; pipelines fill it up or cut it to lengths of their own.
USUAL_WORDS = 64

#: The element type where nobody says; configurations of diffusers name none.
_USUAL_TYPE = "bfloat16"


@checked
def diffusion(
    model: str | os.PathLike[str],
    *,
    steps: int | None = None,
    size: str | None = None,
    frames: int | None = None,
    guidance: float | None = None,
    prompt: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    device: str | None = None,
    memory_fraction: float = 0.9,
    progress: Callable[[str], None] = lambda step: None,
) -> Diffusion:
    """The cost of an image or a video of a diffusion pipeline: text encoders, denoiser, decoder, and what must fit.

    diffusers' own pipeline runs with stand-ins in place of its modules, which note what they are called with; its
    scheduler decides how often the denoiser runs, and it decides how guidance is computed. Modules are built on tensors
    without memory; no weights are read.

    Args:
        model: path of a folder of diffusers or of its ``model_index.json``.
        steps: steps of the scheduler; None: as the pipeline does by itself, as with all that follows.
        size: of the image, ``"1024x768"`` for a width of 1,024 and a height of 768 pixels.
        frames: frames of a video.
        guidance: the scale of guidance; at 1 pipelines leave out the prompt that is to be avoided.
        prompt: tokens of the prompt, which pipelines fill up or cut to lengths of their own; None: 64.
        batch: images or videos at once.
        dtype: element type of all weights ("bf16", "fp16", "fp32"); None: bf16.
        device: the name of a device (see ``flopwise devices``), whose figures bound the times and say what fits.
        memory_fraction: the part of the device's memory that may be used.
        progress: called with the name of each step.

    Raises:
        ModelError: the pipeline cannot be read, takes more than a prompt, or fails.
        InputError: it has no such setting or refuses its value, a number is less than 1, or a name is unknown.
    """
    for name, number in (("steps", steps), ("frames", frames), ("prompt", prompt), ("batch", batch)):
        if number is not None and operator.index(number) < 1:
            raise InputError(f"{name} {number}: must be at least 1")
    Engine(memory_fraction=memory_fraction).check()
    width, height = (None, None) if size is None else pixels("size", size)
    from flopwise.formats.torch.diffusion.format import is_pipeline, require

    if not is_pipeline(model):
        raise InputError(f"{os.fsdecode(model)}: is no folder of diffusers with a model_index.json, nor that file")
    require(model)
    where = None
    if device is not None:
        from flopwise.analyses.timing.machine import named

        if re.match(r"\d+\s*[x×]", device):
            raise InputError(f"{device}: a pipeline is counted on one device")
        where = named(device)
    from flopwise.formats.torch.diffusion.calls import requested
    from flopwise.formats.torch.diffusion.components import read_components
    from flopwise.formats.torch.language.model import element_type

    kind = element_type(dtype or _USUAL_TYPE)
    progress("loading diffusers")
    components = read_components(model, kind, progress)
    settings = {"steps": steps, "width": width, "height": height, "frames": frames, "guidance": guidance}
    words = USUAL_WORDS if prompt is None else prompt
    request = requested(components, batch, settings, words, progress)
    stages: list[Stage] = []
    notes: dict[str, None] = {}
    denoised = sum(call.times for call in request.calls if call.component in components.denoisers)
    per_step = -(-denoised // request.steps)
    for call in request.calls:
        counted = profile(call.graph)
        rounds = -(-call.times // per_step) if call.component in components.denoisers and not call.decodes else 1
        stages.append(stage_of(counted, call.component, call.times, call.shape[0], rounds))
        notes.update(dict.fromkeys(f"{call.component}: {note}" for note in counted.notes))
    result = Diffusion(
        name=components.kind.__name__,
        source=components.source,
        dtype=str(kind).removeprefix("torch."),
        batch=batch,
        steps=request.steps,
        width=request.width,
        height=request.height,
        frames=request.frames,
        components={
            name: Component(
                type(module).__name__,
                sum(tensor.numel() for tensor in module.parameters()),
                sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())),
            )
            for name, module in components.modules.items()
        },
        stages=tuple(stages),
        memory_fraction=memory_fraction,
        device=where,
        notes=(*_assumed(dtype, words), *components.notes, *notes),
    )
    return result if where is None else replace(result, notes=(*result.notes, *notes_on_floors(stages, where)))


def pixels(name: str, size: str) -> tuple[int, int]:
    """Width and height of an image: ``"1024x768"``, or ``"512"`` for a square.

    Raises:
        InputError: it is written otherwise, or one of them is 0.

    >>> pixels("size", "1024x768"), pixels("size", "512")
    ((1024, 768), (512, 512))
    """
    match = re.fullmatch(r"([1-9]\d{0,5})(?:\s*[x×]\s*([1-9]\d{0,5}))?", size.strip())
    if match is None:
        raise InputError(f"{name} {size!r}: write WIDTHxHEIGHT in pixels, such as 1024x768")
    return int(match[1]), int(match[2] or match[1])


def _assumed(dtype: str | None, words: int) -> list[str]:
    """Notes on what nobody said."""
    notes = [f"the prompt has {words:,} tokens, which the pipeline fills up or cuts to a length of its own"]
    return (
        notes if dtype else [f"{_USUAL_TYPE}: configurations of diffusers name no element type; --dtype does", *notes]
    )
