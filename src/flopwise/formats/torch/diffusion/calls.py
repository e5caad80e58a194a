"""The calls that a request makes of the modules of a pipeline: diffusers' own pipeline runs with stand-ins for them.

The stand-in of a module notes what it is called with, and returns tensors without contents of the shapes that the
module returns on tensors without memory. Prompts, latents and the scheduler are real, so that it is the pipeline that
decides how often a module is called, and whether guidance is a second call or a larger batch.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError, ModelError
from flopwise.formats.inputs import Value
from flopwise.formats.sources.location import in_words
from flopwise.formats.sources.text import JsonObject
from flopwise.formats.torch.containers import copied, tensors_inside
from flopwise.formats.torch.diffusion.components import Components, quiet
from flopwise.formats.torch.kinds import Kwargs
from flopwise.formats.torch.read import graph_and_result
from flopwise.graph import Graph

#: Where prompts and latents are made.
_PLACE = torch.device("cpu")

#: A word of the prompt, which is a token.
_WORD = "a"


#: What diffusers calls the settings of a request.
_SETTINGS = {
    "steps": "num_inference_steps",
    "width": "width",
    "height": "height",
    "frames": "num_frames",
    "guidance": "guidance_scale",
}


@dataclass(frozen=True)
class Call:
    """Calls of a module with tensors of the same shapes."""

    component: str
    #: The program of one call of the component's module or of its decoder, and the shape of its result.
    graph: Graph
    shape: tuple[int, ...]
    decodes: bool
    times: int


@dataclass(frozen=True)
class Request:
    """The calls of a request, in the order of the first of each, and the size of what it makes."""

    calls: tuple[Call, ...]
    steps: int
    width: int
    height: int
    #: Frames of a video; None for an image.
    frames: int | None


class _FinishedError(BaseException):
    """The decoder has run: what is left is not the network's."""


class Decoder(nn.Module):
    """The decoder of an autoencoder as a module."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, *args: Any, **settings: Any) -> object:
        """The image of latents."""
        return self.vae.decode(*args, **settings)


def requested(
    components: Components, batch: int, settings: JsonObject, words: int, progress: Callable[[str], None]
) -> Request:
    """The calls of a request to a pipeline.

    Args:
        components: the pipeline.
        batch: prompts, each of which makes one image or video.
        settings: steps, width, height, frames and guidance; those that are None are left to the pipeline.
        words: tokens of each prompt, before the pipeline fills it up or cuts it.
        progress: called with the name of each component that is run.

    Raises:
        InputError: the pipeline has no such setting, or refuses its value.
        ModelError: it takes more than a prompt, or fails.
    """
    kind, name = components.kind.__name__, components.source
    takes = inspect.signature(components.kind.__call__).parameters
    arguments = {}
    for key, value in settings.items():
        if value is not None and _SETTINGS[key] not in takes:
            raise InputError(f"{name}: {kind} takes no {key}")
        if value is not None:
            arguments[_SETTINGS[key]] = value
    if "prompt" not in takes:
        raise ModelError(f"{name}: {kind} takes no prompt; pipelines from text to images or videos are counted")
    calls: list[Call] = []
    with quiet():
        pipeline = _pipeline(components)
        with _replaced(pipeline, components, calls, progress):
            try:
                pipeline([" ".join([_WORD] * words)] * batch, output_type="pt", **arguments)
            except _FinishedError:
                pass
            except ModelError:
                raise
            except ValueError as error:
                raise InputError(
                    f"{name}: {kind} refuses the request, a prompt alone: {in_words(error, 300)}"
                ) from error
            except Exception as error:
                raise ModelError(f"{name}: {kind} does not run with a prompt alone: {in_words(error, 300)}") from error
    steps = settings.get("steps") or takes["num_inference_steps"].default
    return Request(tuple(calls), int(steps), *_size(calls, name))


def _pipeline(components: Components) -> Any:
    """The pipeline with its modules; it believes that they are where latents are made."""
    own = {"_execution_device": _PLACE, "device": _PLACE, "__module__": components.kind.__module__}
    kind: Any = type(components.kind.__name__, (components.kind,), own)
    parts = {**components.others, **components.modules}
    parts.update({key: _tokenizer(most) for key, most in components.tokenizers.items()})
    takes = inspect.signature(components.kind).parameters
    chosen = {key: parts.get(key) for key, one in takes.items() if key in parts or one.default is one.empty}
    if "requires_safety_checker" in takes:
        chosen["requires_safety_checker"] = False
    try:
        pipeline = kind(**chosen)
    except Exception as error:
        raise ModelError(f"{components.source}: {kind.__name__} cannot be made: {in_words(error, 300)}") from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _tokenizer(most: int) -> object:
    """A tokenizer that knows one word: what a prompt says changes no cost."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({_WORD: 0, "<pad>": 1}, unk_token=_WORD))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    maker: Any = PreTrainedTokenizerFast
    return maker(
        tokenizer_object=words,
        model_max_length=most,
        unk_token=_WORD,
        bos_token=_WORD,
        eos_token=_WORD,
        pad_token="<pad>",
        chat_template=template,
    )


@contextlib.contextmanager
def _replaced(
    pipeline: object, components: Components, calls: list[Call], progress: Callable[[str], None]
) -> Iterator[None]:
    """Modules and their decoders are stand-ins of themselves, and finished images are not processed."""

    def finished(*args: object, **kwargs: object) -> None:
        raise _FinishedError

    for processor in ("image_processor", "video_processor"):
        for method in ("postprocess", "postprocess_video"):
            if hasattr(getattr(pipeline, processor, None), method):
                setattr(getattr(pipeline, processor), method, finished)
    kinds = {name: type(module) for name, module in components.modules.items()}
    for name, module in components.modules.items():
        _stand_in(name, module, calls, progress)
    try:
        yield
    finally:
        for name, module in components.modules.items():
            module.__class__ = kinds[name]


def _stand_in(component: str, module: nn.Module, calls: list[Call], progress: Callable[[str], None]) -> None:
    """Give a module a class whose calls are noted, and which believes that it is where latents are made."""
    kind: Any = type(module)

    def noted(called: nn.Module) -> Callable[..., object]:
        places: dict[str, int] = {}
        results: Kwargs = {}

        def call(self: nn.Module, *args: object, **kwargs: object) -> Any:
            key = _signature((args, kwargs))
            if key not in places:
                inputs = [_handed(value) for value in args], {name: _handed(value) for name, value in kwargs.items()}
                self.__class__ = kind
                progress(component)
                try:
                    graph, results[key] = graph_and_result(called, inputs, _without_contents)
                finally:
                    self.__class__ = own
                places[key] = len(calls)
                _, first = next(tensors_inside(results[key]))
                calls.append(Call(component, graph, tuple(first.shape), isinstance(called, Decoder), 0))
            place = places[key]
            calls[place] = replace(calls[place], times=calls[place].times + 1)
            return results[key]

        return call

    parts = {"device": _PLACE, "__module__": kind.__module__}
    parts["forward"] = functools.wraps(kind.forward)(noted(module))
    if hasattr(kind, "decode"):
        parts["decode"] = functools.wraps(kind.decode)(noted(Decoder(module)))
    own: Any = type(kind.__name__, (kind,), parts)
    module.__class__ = own


def _signature(value: object) -> str:
    """A key of what decides the cost of a call: shapes and types of tensors, whole numbers and their lists."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_signature(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return f"({','.join(map(_signature, value))})"
    return str(value) if isinstance(value, (int, str)) else type(value).__name__


def _handed(value: object) -> object:
    """An argument for the reader: whole numbers and flags as they are, other tensors without memory."""
    tensors = {
        id(tensor): tensor
        if not tensor.is_floating_point() and not tensor.is_meta
        else torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        for _, tensor in tensors_inside(value)
    }
    if not tensors and isinstance(value, (list, tuple)):
        return Value(value)
    return copied(value, tensors)


def _without_contents(value: object) -> object:
    """The result of a module with zeros in its place, which take no memory."""
    return copied(
        value,
        {id(t): torch.zeros((), dtype=t.dtype).expand(tuple(map(int, t.shape))) for _, t in tensors_inside(value)},
    )


def _size(calls: list[Call], name: str) -> tuple[int, int, int | None]:
    """Width, height and frames of what a decoder makes.

    Raises:
        ModelError: no decoder was called.
    """
    decoded = [call.shape for call in calls if call.decodes]
    if not decoded:
        raise ModelError(f"{name}: nothing in it decodes latents")
    *_, height, width = decoded[-1]
    return width, height, decoded[-1][2] if len(decoded[-1]) == 5 else None
