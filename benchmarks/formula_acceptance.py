"""Formulas beside profiles: python benchmarks/formula_acceptance.py [SET ...] [--only NAME] [--points 20] [--jobs 2].

Each model's formula is evaluated at random points inside its stated domain (the smallest, tiny, odd and large sizes,
an empty batch) and at points of any kind. A figure that differs from the profile there is wrong; a point that the
profile takes and the formula refuses is narrow. One line for each model whose formula is not complete, wrong or narrow
is printed, and a table over the sets. Sets: examples, light (onnx's), made, vision (torchvision and timm), language
(transformers, prefill and steps), exports (ONNX files that PyTorch wrote), caffe, operators (PyTorch's modules and
functions one by one). What is not installed is left out.

Each model has a process of its own; its random numbers depend on its name alone.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import flopwise  # noqa: E402
from flopwise.analyses.formula.domains import OutsideError  # noqa: E402
from flopwise.analyses.formula.terms import value  # noqa: E402

#: Where published Caffe nets lie, if anywhere.
CAFFE = ROOT.parent / "shared" / "models" / "caffe"

#: A model's process may take so many seconds.
SECONDS = 300

#: A name or a number for each axis, by the name of the input.
Shapes = Mapping[str, "tuple[int | str, ...]"]


@dataclass(frozen=True)
class Job:
    """A model, and how its sizes are open: the first of several ways that the model takes."""

    name: str
    #: Makes the model; called in its own process.
    build: Callable[[], Any]
    #: Shapes with symbols; None: the model's own.
    ways: tuple[Shapes | None, ...] = (None,)
    #: Options of the formula, such as past and new, whose values may be symbols.
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Result:
    """What came out for one model."""

    symbols: str = ""
    seconds: float = 0.0
    complete: bool = False
    conditions: tuple[str, ...] = ()
    #: Points inside the domain, and others that the model takes.
    inside: int = 0
    elsewhere: int = 0
    wrong: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    #: Why there is no formula.
    error: str = ""
    note: str = ""


def check(job: Job, count: int) -> Result:
    """The formula of a model beside its profiles."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    chance = random.Random(job.name)
    model, result = job.build(), Result()
    for way in job.ways:
        start = time.process_time()
        try:
            formula = flopwise.formula(model, dict(way) if way else None, **job.options)
        except flopwise.FlopwiseError as error:
            result.error = " ".join(str(error).split())
            continue
        result.error = ""
        break
    else:
        return result
    result.seconds = time.process_time() - start
    result.symbols = " ".join(d.name for d in formula.domains)
    result.complete, result.conditions = formula.exact, formula.conditions
    result.note = "; ".join(n for n in formula.notes if "formula" in n)

    def profile(point: Mapping[str, int]) -> flopwise.Profile | None:
        whole = {**point, **{n: value(t, point) for n, t in formula.tied.items()}}
        options = {k: whole.get(v, v) if isinstance(v, str) else v for k, v in job.options.items()}
        if "past" in options and "batch" in whole:
            options["batch_size"] = whole["batch"]
        placed = {n: tuple(whole.get(d, d) for d in s) for n, s in (way or {}).items()} or None
        dims = None
        if way is None and all(d.step == 1 for d in formula.domains):  # the file may have sums of symbols as names
            placed = {name: tuple(value(t, point) for t in shape) for name, _, shape in formula.inputs}
        elif way is None:
            dims = whole
        if "past" in options:
            placed = dims = None
        try:
            return flopwise.profile(model, placed, dims=dims, **options)
        except flopwise.FlopwiseError:
            return None

    seen: set[tuple[int, ...]] = set()
    for wanted, inside in ((count, True), (count // 2, False)):
        done = 0
        for _ in range(20 * count):
            point = inner(formula, chance) if inside else outer(formula, chance)
            key = tuple(point.values())
            if done == wanted or key in seen or len(seen) > 8 * count:
                continue
            try:
                formula.point(point)
                holds = formula.everywhere
            except OutsideError:
                holds = False
            if holds != inside:
                continue
            seen.add(key)
            there = profile(point)
            done += there is not None
            compare(formula, point, there, holds, result)
    return result


def compare(
    formula: Any, point: Mapping[str, int], there: flopwise.Profile | None, holds: bool, result: Result
) -> None:
    """Note down what a formula says at a point."""
    text = " ".join(f"{n}={s}" for n, s in point.items())
    try:
        values: dict[str, Any] = dict(formula.at(**point))
        values["peak_activation_bytes"] = formula.value("peak_activation_bytes", **point)
    except flopwise.FlopwiseError as error:
        if there is not None and clean(there):
            result.narrow.append(f"{text}: {' '.join(str(error).split())[:200]}")
        return
    if there is None:
        if holds:
            result.wrong.append(f"{text}: the model does not take these sizes")
        return
    result.inside, result.elsewhere = result.inside + holds, result.elsewhere + (not holds)
    lacking = {f for f in values if f in formula.whole.terms and not formula.whole.exact(f)} if holds else set()
    expected = {f: there.peak_activation_bytes if f.startswith("peak") else getattr(there.sum, f) for f in values}
    for figure, mine in values.items():
        theirs = expected[figure]
        if mine != theirs and not (figure in lacking and (mine or 0) <= (theirs or 0)):
            result.wrong.append(f"{text}: {figure} is {mine}, not {theirs}")
            return


def clean(profile: flopwise.Profile) -> bool:
    """Whether a model fits its sizes: nothing is missing, and nothing was odd enough to be warned of."""
    odd = [w for w in profile.graph.warnings if "has a dimension of 0" not in w]
    return not odd and not profile.unresolved


def inner(formula: Any, chance: random.Random) -> dict[str, int]:
    """A point inside the bounds of each symbol."""
    if chance.random() < 0.3:  # near sizes that are known to fit, where conditions on several symbols leave few
        near = formula.verified_at[0]
        return {d.name: max(d.low, near[d.name] + d.step * chance.randint(-24, 24)) for d in formula.domains}
    point = {}
    for d in formula.domains:
        low = d.place(d.low)
        high = low + 10 ** chance.choice((1, 2, 3)) if d.high is None else d.place(d.high)
        place = chance.choice((low, low + 1, chance.randint(low, min(low + 12, high)), chance.randint(low, high)))
        point[d.name] = d.size(min(place, high))
    return point


def outer(formula: Any, chance: random.Random) -> dict[str, int]:
    """Any point."""
    sizes = (0, 1, 2, 3, chance.randint(1, 40), chance.randint(1, 700), 32 * chance.randint(1, 20))
    return {d.name: chance.choice(sizes) for d in formula.domains}


# The sets.


def images(*sizes: int) -> tuple[Shapes, ...]:
    """Images of any size; else of the sizes that a model is made for."""
    return ({"x": ("N", 3, "H", "W")}, *({"x": ("N", 3, s, s)} for s in sizes or (224,)))


def examples(folder: Path) -> Iterator[Job]:
    ways: dict[str, tuple[Shapes | None, ...]] = {
        "tiny_resnet.onnx": (None, {"image": ("N", 3, "H", "W")}),
        "custom_op.onnx": (None, {"features": ("N", 16)}),
        "alexnet.prototxt": ({"data": ("N", 3, "H", "W")},),
    }
    for path in sorted((ROOT / "examples").glob("*.*")):
        if path.suffix in (".onnx", ".prototxt"):
            own = {"rules": ROOT / "examples/spline_rule.py"} if path.name == "custom_op.onnx" else {}
            from flopwise.cli.models import load_rules

            options = {"rules": load_rules(str(own["rules"]))} if own else {}
            yield Job(path.name, lambda path=path: path, ways.get(path.name, (None,)), options)


def light(folder: Path) -> Iterator[Job]:
    import onnx.backend.test

    from flopwise.formats.kit.inputs import declared
    from flopwise.formats.onnx.read import opened_onnx

    for path in sorted((Path(onnx.backend.test.__file__).parent / "data" / "light").glob("*.onnx")):
        names = [(i.name, i.dims) for i in declared(opened_onnx(path).model.graph) if i.dims and len(i.dims) == 4]
        opened = {names[0][0]: ("N", names[0][1][1], "H", "W")}
        fixed = {names[0][0]: ("N", *names[0][1][1:])}
        one = {names[0][0]: (1, names[0][1][1], "H", "W")}
        yield Job(path.name, lambda path=path: path, (opened, fixed, one))


def made(folder: Path) -> Iterator[Job]:
    from tests.analyses.formula import models, test_faults, test_odd_sizes

    def odd(name: str) -> bytes:
        net = models.Net()
        out = net.op("Tanh", test_odd_sizes.MODELS[name](net))
        return bytes(net.model(out, x=["N", 3, "H", "W"]))

    builds = {f"odd: {name}": (lambda name=name: odd(name)) for name in test_odd_sizes.MODELS}
    builds |= {"pooled": test_faults.pooled, "head": test_faults.head}
    whole = (models.resnet50, models.unet, models.fpn, models.yolox, models.llama, models.past)
    builds |= {f"made: {build.__name__}": build for build in whole}
    builds["made: llama with a cache"] = lambda: models.llama(4, cache=True)
    for name, build in builds.items():
        path = folder / (name.replace(" ", "_").replace(":", "") + ".onnx")
        path.write_bytes(build())
        yield Job(name, lambda path=path: path)


TORCHVISION = """
    alexnet vgg11_bn resnet18 resnet50 resnext50_32x4d densenet121 googlenet inception_v3 mobilenet_v2
    mobilenet_v3_large mnasnet1_0 shufflenet_v2_x1_0 squeezenet1_1 efficientnet_b0 efficientnet_v2_s regnet_y_400mf
    convnext_tiny vit_b_16 swin_t swin_v2_t maxvit_t fcn_resnet50 deeplabv3_resnet50 lraspp_mobilenet_v3_large
    ssdlite320_mobilenet_v3_large ssd300_vgg16 retinanet_resnet50_fpn fcos_resnet50_fpn
    fasterrcnn_mobilenet_v3_large_fpn raft_small
"""
TIMM = """
    resnet26d resnetv2_50 seresnet50 ecaresnet26t skresnet18 res2net50_26w_4s cspresnet50 darknet53 dla34 dpn68
    efficientnet_lite0 mixnet_s mobilenetv4_conv_small mobileone_s0 ghostnet_100 rexnet_100 repvgg_a0 xception41
    hrnet_w18_small vit_tiny_patch16_224 deit_tiny_patch16_224 convnextv2_atto poolformer_s12 pvt_v2_b0 coatnet_0_rw_224
    mobilevit_s edgenext_xx_small xcit_nano_12_p16_224 mixer_s32_224 swin_tiny_patch4_window7_224 efficientformer_l1
    levit_128s
"""


def detector(whole: Any) -> Any:
    """A detector up to its head: what follows depends on the data."""
    from torch import nn

    class Detector(nn.Module):
        """The backbone and the head on each of its scales."""

        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = whole.backbone, getattr(whole, "head", None) or whole.rpn.head

        def forward(self, x: Any) -> Any:
            return self.head(list(self.backbone(x).values()))

    return Detector().eval()


def vision(folder: Path) -> Iterator[Job]:
    import torch
    from tests.exports.models import torchvision

    models = torchvision().models
    other: dict[str, tuple[Shapes | None, ...]] = {
        "inception_v3": images(299),
        "lraspp_mobilenet_v3_large": ({"input": ("N", 3, "H", "W")},),
        "raft_small": ({"image1": ("N", 3, "H", "W"), "image2": ("N", 3, "H", "W")},),
    }

    def build(name: str) -> Any:
        with torch.device("cpu" if name.startswith("regnet") else "meta"):
            extra = {"weights": None, "weights_backbone": None} if "_resnet50" in name or "ssd" in name else {}
            extra = extra or ({"weights": None, "weights_backbone": None} if "lraspp" in name or "rcnn" in name else {})
            extra |= {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
            model = models.get_model(name, **extra).eval()
            return detector(model) if "ssd" in name or "_fpn" in name else model

    def timm_model(name: str) -> Any:
        import timm

        with torch.device("meta"):
            return timm.create_model(name).eval()

    for name in TORCHVISION.split():
        yield Job(name, lambda name=name: build(name), other.get(name, images()))
    for name in TIMM.split() if find_spec("timm") else ():
        yield Job(f"timm {name}", lambda name=name: timm_model(name), images())


LANGUAGE = """
    llama qwen2 qwen3 mistral mixtral gemma gemma2 gemma3_text gpt2 gpt_neox opt bloom falcon phi phi3 olmo2 mamba
    qwen3_moe deepseek_v3 starcoder2 t5 bart
"""
STEPS = "llama qwen3 mistral gemma3_text gpt2 mixtral opt phi3 deepseek_v3 mamba"


def language(folder: Path) -> Iterator[Job]:
    import tests.torch_vision  # noqa: F401
    from tests.language_steps import WAYS, models

    def build(kind: str) -> Any:
        for way in WAYS:
            try:
                return models(kind, way)[0]
            except Exception as error:  # the sizes do not fit together
                last = error
        raise last

    for kind in LANGUAGE.split():
        ids: Shapes = {"input_ids": ("B", "S")}
        pair: Shapes = {"input_ids": ("B", "S"), "decoder_input_ids": ("B", "T")}
        yield Job(f"{kind} prefill", lambda kind=kind: build(kind), (pair if kind in ("t5", "bart") else ids,))
    for kind in STEPS.split():
        yield Job(f"{kind} step", lambda kind=kind: build(kind), (None,), {"past": "past", "new": "new"})


#: What keeps a model from asking for stored weights.
NO_DOWNLOAD: dict[str, dict[str, Any]] = {
    "fcn_resnet50": {"weights_backbone": None},
}


def exports(folder: Path) -> Iterator[Job]:
    import torch
    from tests.exports.models import Called, torchvision, transformers
    from tests.exports.test_formulas import export

    vision_models, library = torchvision().models, transformers()
    image = {"image": {0: "N", 2: "H", 3: "W"}}
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}

    def of_image(name: str) -> Path:
        path = folder / f"{name}.onnx"
        return export(
            vision_models.get_model(name, **NO_DOWNLOAD.get(name, {})),
            {"image": torch.zeros(2, 3, 224, 256)},
            image,
            path,
        )

    def of_text(kind: str, config: str, **more: Any) -> Path:
        settings = getattr(library, config)(vocab_size=100, attn_implementation="eager", **more)
        called: Any = Called(getattr(library, kind)(settings).eval(), ("input_ids", "attention_mask"))
        called.packed = True
        tokens = torch.arange(32).reshape(2, 16)
        arguments = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        axes = {0: "batch", 1: "sequence"}
        return export(called, arguments, dict.fromkeys(arguments, axes), folder / f"{kind}.onnx")

    for name in (
        "resnet18",
        "mobilenet_v3_small",
        "squeezenet1_1",
        "densenet121",
        "shufflenet_v2_x0_5",
        "convnext_tiny",
        "fcn_resnet50",
        "regnet_y_400mf",
        "efficientnet_b0",
        "mnasnet0_5",
    ):
        yield Job(f"export {name}", lambda name=name: of_image(name))
    yield Job("export bert", lambda: of_text("BertModel", "BertConfig", **sizes))
    yield Job("export llama", lambda: of_text("LlamaModel", "LlamaConfig", num_key_value_heads=2, **sizes))
    yield Job("export gpt2", lambda: of_text("GPT2Model", "GPT2Config", n_embd=64, n_layer=2, n_head=4))


def caffe(folder: Path) -> Iterator[Job]:
    for path in sorted(CAFFE.glob("*.prototxt")):
        try:
            inputs = flopwise.read(path).inputs
        except flopwise.FlopwiseError:
            continue
        shapes: Shapes = {t.name: ("N", t.dims[1], "H", "W") for t in inputs if len(t.dims) == 4}
        yield Job(path.name, lambda path=path: path, (shapes,))


def operators(folder: Path) -> Iterator[Job]:
    from tests.analyses.formula.operators import operators as table

    for name, (build, shapes) in table().items():
        yield Job(name, lambda build=build: build().eval(), (shapes,))


SETS = {
    "examples": examples,
    "light": light,
    "made": made,
    "caffe": caffe,
    "vision": vision,
    "language": language,
    "exports": exports,
    "operators": operators,
}


def limited(job: Job, count: int) -> Result:
    """The same in a process of its own, which may take so long and no longer."""
    here, there = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        try:
            there.send(check(job, count))
        except BaseException as error:
            there.send(Result(error=f"CRASH {type(error).__name__}: {' '.join(str(error).split())[:300]}"))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    there.close()
    try:
        result: Result = here.recv() if here.poll(SECONDS) else Result(error=f"more than {SECONDS} s")
    except EOFError:
        result = Result(error="CRASH the process ended")
    process.kill()
    process.join()
    return result


def main() -> None:
    """Check and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], metavar="SET")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="a line for every model")
    options = parser.parse_args()
    table = []
    for chosen in options.sets or SETS:
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
            try:
                jobs = [j for j in SETS[chosen](Path(name)) if options.only in j.name]
            except ImportError as error:
                print(f"{chosen}: left out ({error})")
                continue
            results = list(pool.map(lambda job: limited(job, options.points), jobs))
        for job, result in zip(jobs, results, strict=True):
            bad = result.error or result.wrong or result.narrow or not result.complete
            if bad or options.all:
                said = [f"{result.symbols}, {result.seconds:.2f} s, {result.inside} + {result.elsewhere} points"]
                said += [result.error] if result.error else [] if result.complete else [f"incomplete: {result.note}"]
                said += [f"WRONG {len(result.wrong)}, such as {result.wrong[0]}"] if result.wrong else []
                said += [f"narrow {len(result.narrow)}, such as {result.narrow[0]}"] if result.narrow else []
                said += [f"holds for {'; '.join(result.conditions)}"] if options.all and result.conditions else []
                print(f"{chosen}: {job.name}: {' | '.join(said)}", flush=True)
        formulas = [r for r in results if not r.error]
        numbers = (len(results), len(formulas), sum(r.complete for r in formulas))
        points = (sum(r.inside for r in formulas), sum(r.elsewhere for r in formulas))
        faults = (sum(map(bool, (r.wrong for r in formulas))), sum(map(bool, (r.narrow for r in formulas))))
        table.append((chosen, *numbers, *points, *faults))
    print("\n| set | models | formulas | complete | points inside | points elsewhere | models wrong | models narrow |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for line in table:
        print("| " + " | ".join(map(str, line)) + " |")


if __name__ == "__main__":
    main()
