"""Whether PyTorch models run after a count as they did before: 200 of torchvision, timm and transformers, and modules
that keep tensors in caches, each in a small configuration with random weights.

Each is counted first, in a process that has never run it, then runs on its own device; so does one that is built
afterwards, and both have to give what a model gives in a process that counts nothing. What is left behind is looked for
as well: tensors on the meta device. ``python benchmarks/torch_afterwards.py [--only PART] [--most N] [--train]``; with
``--range 0:40`` only the models of these places in the list, so that all of it runs in pieces.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import multiprocessing
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

#: A kind of model, and the name of one.
Name = tuple[str, str]

SIDE, TOKENS = 64, 12

#: Sizes that make the configuration of a model of transformers small.
SMALL = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embed_dim": 32,
    "intermediate_size": 64,
    "d_ff": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "ffn_dim": 64,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 99,
    "image_size": SIDE,
    "patch_size": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "num_queries": 10,
    "num_experts": 4,
    "num_local_experts": 4,
}


#: Parameters from which on a model is left out.
LARGEST = 60_000_000


def names() -> Iterator[Name]:
    """All that is known, the kinds in turn."""
    kinds: dict[str, list[Name]] = {}
    for name in _listed():
        kinds.setdefault(name[0], []).append(name)
    for turn in itertools.zip_longest(*kinds.values()):
        yield from (name for name in turn if name is not None)


def _listed() -> Iterator[Name]:
    from tests.torch_caches import KINDS

    from flopwise.formats.torch.libraries import imported

    yield from (("caches", kind.__name__) for kind in KINDS)
    vision = imported("torchvision.models")
    yield from (("torchvision", name) for name in vision.list_models(module=vision))
    yield from (("torchvision", name) for name in vision.list_models(module=vision.segmentation))
    import timm

    families: dict[str, str] = {}
    for name in timm.list_models():
        families.setdefault(name.partition("_")[0], name)
    yield from (("timm", name) for name in families.values())
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    first = ["rt_detr", "dinov3_vit"]  # which once failed afterwards
    others = random.Random(0).sample(sorted(MODEL_MAPPING_NAMES), len(MODEL_MAPPING_NAMES))
    yield from (("transformers", name) for name in dict.fromkeys((*first, *others)))


def built(name: Name) -> tuple[Any, dict[str, Any]]:
    """A model with random weights, the same each time, and its inputs."""
    import torch

    torch.manual_seed(0)
    model, inputs = BUILDERS[name[0]](name[1])
    return model.eval(), inputs


def _of_caches(name: str) -> tuple[Any, dict[str, Any]]:
    import torch
    from tests import torch_caches

    return getattr(torch_caches, name)(), {"x": torch.rand(3, torch_caches.WIDTH)}


def _of_torchvision(name: str) -> tuple[Any, dict[str, Any]]:
    import torch

    from flopwise.formats.torch.libraries import imported

    side = 299 if name == "inception_v3" else 224 if name.startswith(("vit", "maxvit")) else SIDE
    options = {"weights_backbone": None} if name.startswith(("deeplabv3", "fcn", "lraspp")) else {}
    model = imported("torchvision.models").get_model(name, weights=None, **options)
    return model, {"x": torch.rand(1, 3, side, side)}


def _of_timm(name: str) -> tuple[Any, dict[str, Any]]:
    import timm
    import torch

    model: Any = timm.create_model(name, pretrained=False)
    return model, {"x": torch.rand(1, *model.default_cfg["input_size"])}


def _of_transformers(name: str) -> tuple[Any, dict[str, Any]]:
    import inspect

    import torch
    from transformers import AutoConfig, AutoModel

    from flopwise.formats.torch.libraries import imported

    imported("torchvision")
    plain = AutoConfig.for_model(name)
    config = AutoConfig.for_model(name, **{key: value for key, value in SMALL.items() if hasattr(plain, key)})
    automatic: Any = AutoModel
    model = automatic.from_config(config)
    takes = inspect.signature(model.forward).parameters
    ids = torch.arange(TOKENS)[None] % 50 + 3
    inputs: dict[str, Any] = {}
    if "input_ids" in takes:
        inputs["input_ids"] = ids
    if "decoder_input_ids" in takes:
        inputs["decoder_input_ids"] = ids[:, :4]
    if "pixel_values" in takes:
        side = getattr(getattr(config, "vision_config", config), "image_size", SIDE)
        inputs["pixel_values"] = torch.rand(1, 3, side, side) if isinstance(side, int) else torch.rand(1, 3, *side)
    return model, inputs


BUILDERS: dict[str, Callable[[str], tuple[Any, dict[str, Any]]]] = {
    "caches": _of_caches,
    "torchvision": _of_torchvision,
    "timm": _of_timm,
    "transformers": _of_transformers,
}


def result(model: Any, inputs: dict[str, Any]) -> str:
    """A digest of all that a model returns, with the devices."""
    import torch

    from flopwise.formats.torch.containers import tensors_inside

    torch.manual_seed(1)
    digest = hashlib.sha256()
    positional = [inputs["x"]] if "x" in inputs else []
    with torch.no_grad():
        returned = model(*positional, **{key: value for key, value in inputs.items() if key != "x"})
    for path, tensor in tensors_inside(returned):
        digest.update(f"{path} {tensor.device} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def hollow() -> int:
    """How many tensors on the meta device there are."""
    import torch

    gc.collect()
    return sum(issubclass(type(o), torch.Tensor) and o.is_meta for o in gc.get_objects())


def counted(name: Name, train: bool) -> tuple[str, ...]:
    """The results of a model that was counted and of one that is built afterwards; then what is left and the notes."""
    import flopwise

    model, inputs = built(name)
    before = hollow()
    given = (inputs["x"],) if "x" in inputs else inputs
    profile = flopwise.profile(model, given, train=train)
    held = [note for note in profile.notes if "of this run" in note]
    del profile
    left = hollow() - before
    again, others = built(name)
    return result(model, inputs), result(again, others), str(left), "; ".join(held)


def plain(name: Name, train: bool) -> tuple[str, ...]:
    """The result of a model that nobody counts, twice: one that is not the same each time shows nothing."""
    model, inputs = built(name)
    return result(model, inputs), result(*built(name))


def size(name: Name, train: bool) -> tuple[str, ...]:
    """The number of a model's parameters, which takes no memory for them."""
    import torch

    with torch.device("meta"):
        return (str(sum(p.numel() for p in BUILDERS[name[0]](name[1])[0].parameters())),)


def _in_process(work: Callable[[Name, bool], tuple[str, ...]], name: Name, train: bool, answers: Any) -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        answers.put(work(name, train))
    except BaseException as error:
        answers.put((f"{type(error).__name__}: {' '.join(str(error).split())[:150]}",))


def apart(work: Callable[[Name, bool], tuple[str, ...]], name: Name, train: bool) -> tuple[str, ...]:
    """What some work gives in a process of its own, which has the libraries and nothing that a model has left there."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_in_process, args=(work, name, train, answers))
    process.start()
    try:
        answer: tuple[str, ...] = answers.get(timeout=60)
    except Exception:
        answer = ("no answer in 60 seconds",)
    process.join(5)
    if process.is_alive():
        process.kill()
        process.join()
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(BUILDERS), help="models of one kind")
    parser.add_argument("--most", type=int, default=200, help="how many models that run")
    parser.add_argument("--range", default=":", help="places in the list, the first and the one after the last: 0:40")
    parser.add_argument("--train", action="store_true", help="count a training step")
    parser.add_argument("--skipped", action="store_true", help="say why models were left out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    from flopwise.formats.torch.libraries import imported

    torch.set_num_threads(1)
    for library in (
        "torchvision.models",
        "timm",
        "transformers",
        "flopwise",
    ):
        imported(library)
    sys.modules["transformers"].logging.set_verbosity_error()
    good = bad = skipped = 0
    start, _, stop = options.range.partition(":")
    listed = (name for name in names() if options.only in (None, name[0]))
    for name in itertools.islice(listed, int(start or 0), int(stop) if stop else None):
        if good + bad >= options.most:
            break
        (parameters,) = apart(size, name, options.train)
        if parameters.isdigit() and int(parameters) > LARGEST:
            continue
        expected = apart(plain, name, options.train)
        if len(expected) < 2 or expected[0] != expected[1]:
            skipped += 1
            if options.skipped:
                print(f"{name[0]} {name[1]} alone: {' '.join(expected)[:200]}", flush=True)
            continue
        found = apart(counted, name, options.train)
        if found == (*expected, "0", ""):
            good += 1
            continue
        bad += 1
        print(f"{name[0]} {name[1]}: {' '.join(found)[:300]}", flush=True)
    print(f"{good} models run as before, {bad} do not; {skipped} do not run by themselves or not the same each time")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
