"""``flopwise.llm``: what a request to a language model costs."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Sequence
from typing import Literal, overload

from flopwise._arguments import checked
from flopwise.analyses.llm.inference import Inference, Logits
from flopwise.analyses.llm.training import Checkpointing, TrainingStep
from flopwise.api.language import request, training
from flopwise.conventions import Convention


@overload
def llm(
    model: object,
    *,
    train: Literal[False] = False,
    prompt: int | None = None,
    generate: int = 256,
    batch: int = 1,
    dtype: str | None = None,
    weights: str | None = None,
    kv_dtype: str | None = None,
    device: str | None = None,
    curve: bool = False,
    rewrites: str | Sequence[str] = (),
    conventions: str | Convention | Sequence[str | Convention] = (),
    logits: Logits = "last",
    max_batched_tokens: int = 8192,
    memory_fraction: float = 0.9,
    block_size: int = 16,
    shared_prefix: int = 0,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    cp: int | None = None,
    dp: int | None = None,
    draft: object = None,
    accept: float = 0.7,
    draft_tokens: int | None = None,
    image: str | None = None,
    images: int = 1,
    seconds: float | None = None,
    strict: bool = False,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Inference: ...


@overload
def llm(
    model: object,
    *,
    train: Literal[True],
    prompt: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    optimizer: str = "adamw",
    checkpointing: Checkpointing = "none",
    dp: int = 1,
    fsdp: int = 1,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    lora: str | None = None,
    weights: str | None = None,
    tokens_per_second: float | None = None,
    measured: float | None = None,
    lengths: int | str | os.PathLike[str] | Sequence[int] | None = None,
) -> TrainingStep: ...


@checked
def llm(
    model: object,
    *,
    train: bool = False,
    prompt: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    **settings: object,
) -> Inference | TrainingStep:
    """The cost of a request to a language model: the prompt, each token after it, the cache, and what must fit.

    With ``train=True``, what a training step costs, on one device and on one rank of many. No weights are read; a type
    that the table of architectures does not have is built by transformers on tensors without memory.

    Args:
        model: path of a ``config.json`` or of a folder that holds one, ``hf:org/name``, a GGUF file, or a model of
            transformers, which is afterwards as it was.
        train: whether a training step is counted in place of a request.
        prompt: tokens of the prompt of each sequence; of a training step, tokens of each sequence. None: 4,096, for an
            encoder no more than it was made for.
        batch: sequences; of a training step, those of all devices together.
        dtype: element type of the weights ("bf16", "fp16", "fp32"); None: as the configuration says. Gradients and the
            optimizer's state have it too.
        device: the name of a device (see ``flopwise devices``), whose figures bound the times and say what fits;
            "8xh100" for eight. Of a training step, also against whose peak a run is held.
        trust_code: whether transformers builds the model, and code that belongs to it may run where it does not know
            its type.
        progress: called with the name of each step.
        generate: request: tokens that are generated after the prompt, by a step each; 256. 0: none, and no cache.
        weights: how the weights are stored, of a request or of the frozen base of ``lora``: by the name of a
            quantisation whose tools do so ("int8", "fp8", "int4", "awq", "gptq", "nf4", "mxfp4", "q4_k_m" ...); None:
            as the files or the configuration say.
        kv_dtype: request: element type of keys and values in the cache ("bf16", "fp8", "int8" ...); None: as the model
            makes it.
        curve: request: whether cost and memory are also run at other lengths of the context, for a plot.
        rewrites: request: rewrites of the program by serving engines of which a figure is asked for: "absorb-mla".
            Their figures stand beside those of the program, never in their place.
        conventions: request: conventions by which each part is counted too ("palm", "fvcore" ...).
        logits: request: the positions of each sequence that an engine scores the vocabulary for: the "last", as engines
            do, or "all", as the program does.
        max_batched_tokens: request: tokens of a step of the engine at most; longer prompts go through in chunks.
        memory_fraction: request: the part of the device's memory that the engine may use.
        block_size: request: tokens of a block of the cache.
        shared_prefix: request: tokens at the start of the prompt that all sequences share in the cache; times and MACs
            are those of sequences without one.
        optimizer: training: "sgd", "momentum", "adam" or "adamw".
        checkpointing: training: what the backward pass computes once more: nothing ("none"), attention ("selective"),
            or every layer ("full", as transformers does it).
        gpus: request: how many devices; ``device="2xh100"`` says the same. What of ``tp`` to ``dp`` is not given is
            looked for, but for ``cp``, which is 1: every split that divides the model is in ``splits`` of the result,
            the fastest steps first.
        dp: replicas that share the batch.
        fsdp: training: ranks that share weights and batch (ZeRO-3).
        tp: devices that share each layer's products.
        pp: stages that share the layers.
        ep: devices that share the experts.
        cp: request: devices that share the tokens of each sequence.
        lora: training: low-rank adapters, which alone are trained, such as "r=16,targets=q_proj,v_proj"; without
            targets beside every linear layer but the scores of the vocabulary.
        draft: request: a draft model, as ``model``, for speculative decoding; in the type of the weights
            that its own configuration names. "mtp": the model's own head that predicts a token more, where its
            configuration names one (``num_nextn_predict_layers``); it shares embedding and scores with the model.
        accept: request: with ``draft``: the share of its guesses that are accepted.
        draft_tokens: request: with ``draft``: tokens that it guesses before the model checks them; None: 4, and with
            "mtp" as many as the model has heads. One head guesses them all, one after the other.
        image: request: the size of the images before the prompt, ``"1024x768"`` for a width of 1,024 and a height of
            768 pixels: as many tokens as the model's own image processor makes of it, beside those of ``prompt``.
        images: request: images of each sequence.
        seconds: request: of sound of each sequence: tokens before the prompt, or what an encoder reads in place of it.
        strict: request: whether a key of the configuration that nothing reads is an error, not a note.
        tokens_per_second: training: tokens that a run trains on each second, on all its devices together, for its MFU.
        measured: training: seconds that a step of a run takes, in place of ``tokens_per_second``.
        lengths: training: tokens of the documents that are packed into the sequences, each with an attention of its
            own: one number for all, several, or the path of a file of numbers, over and over until all sequences are
            full; a document is cut where a sequence is. None: each sequence is one document.

    Raises:
        ModelError: the model cannot be read or built, or fails.
        InputError: a number is less than 1, an element type, a rewrite or another name is unknown, the model has
            nothing for a rewrite, something does not divide, or, with ``strict``, a key of the configuration is not
            read.
        TypeError: an argument of a request is given for a training step, or the other way round.
    """
    run: Callable[..., Inference | TrainingStep] = training.step if train else request.request
    if foreign := settings.keys() - inspect.signature(run).parameters.keys():
        what = "a training step" if train else "a request"
        raise TypeError(f"llm() got an unexpected keyword argument {min(foreign)!r} for {what}")
    return run(
        model,
        prompt=None if prompt is None else operator.index(prompt),
        batch=operator.index(batch),
        dtype=dtype,
        device=device,
        trust_code=trust_code,
        progress=progress,
        **settings,
    )
