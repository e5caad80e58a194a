"""The published figures: what is stated and where, and under which convention it is reproduced."""

from __future__ import annotations

import contextlib
import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from flopwise.errors import InputError
from flopwise.formats.format import late

if TYPE_CHECKING:
    from torch import nn

#: A module of a library, repaired where torchvision needs it.
imported = late("torch.libraries:imported")

#: The first letter of a unit -> how many it stands for; "M" is also the unit of parameters in millions.
PREFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}

#: The columns of a source's file.
COLUMNS = ("model", "quantity", "stated", "unit", "input", "year", "page", "build", "way", "count", "note")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to count a figure: a convention, whether it is doubled, and what is done to the model before."""

    convention: str
    #: Two where the source calls a multiply-add two operations and the convention calls it one.
    times: int = 1
    #: "reparameterized": after the branches of the model are fused for inference; "binary": G is 2^30, and M is 2^20.
    options: tuple[str, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> Way:
        """The way that a text such as ``2*thop reparameterized`` stands for."""
        first, *options = text.split()
        times, _, convention = first.rpartition("*")
        return cls(convention, int(times or 1), tuple(options))

    def __str__(self) -> str:
        return " ".join((f"{self.times}*{self.convention}" if self.times > 1 else self.convention, *self.options))


@dataclass(frozen=True, slots=True)
class Source:
    """A source of published figures."""

    name: str
    about: str
    #: Digits behind the point of its operations and of its parameters; None: as many as each figure shows.
    decimals: int | None
    #: The ways to count operations, its own first.
    ways: tuple[Way, ...]
    #: Versions of what the recorded counts were made with.
    versions: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure, and how flopwise comes to it."""

    source: str
    #: As the page calls it.
    model: str
    #: "operations" or "parameters".
    quantity: str
    #: The number as it is printed, and its unit: "G", "M", or "" for one.
    stated: str
    unit: str
    #: The size of the input, such as 3x224x224.
    input: str
    year: int
    #: The public page that the figure stands on.
    page: str
    #: How the model is made, such as ``timm:resnet50``; "" where no package that can be installed defines it.
    build: str
    #: The way that gives the figure; "" where none does.
    way: str
    #: What flopwise counts in that way, else in the first way of the source.
    count: int | None
    #: Why the figure is not reproduced.
    note: str

    @property
    def reproduced(self) -> bool:
        """True where flopwise comes to the figure under a named convention."""
        return bool(self.way)


def sources() -> dict[str, Source]:
    """The sources by name."""
    return {
        row["source"]: Source(
            row["source"],
            row["about"],
            int(row["decimals"]) if row["decimals"] else None,
            tuple(Way.from_text(text) for text in row["ways"].split(";")),
            row["versions"],
        )
        for row in _rows("sources.csv")
    }


def figures(source: str | None = None, models: Sequence[str] = ()) -> list[Figure]:
    """The published figures, source by source.

    Args:
        source: only those of this source.
        models: only models whose name on the page matches one of these patterns (``*``, ``?``).

    Raises:
        InputError: there is no such source, or no model matches.
    """
    works = sources()
    if source is not None and source not in works:
        raise InputError(f"unknown source {source!r}; known: {', '.join(works)}")
    chosen = [figure for name in works if source in (None, name) for figure in _figures(name)]
    if models:
        from fnmatch import fnmatchcase

        chosen = [f for f in chosen if any(fnmatchcase(f.model.lower(), pattern.lower()) for pattern in models)]
        if not chosen:
            raise InputError(f"no figures are published for a model named {', '.join(models)}")
    return chosen


def _figures(source: str) -> Iterable[Figure]:
    for row in _rows(f"{source}.csv"):
        count = int(row.pop("count") or -1)
        year = int(row.pop("year"))
        yield Figure(source=source, year=year, count=None if count < 0 else count, **row)


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("flopwise.analyses.zoo.published").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def agrees(figure: Figure, source: Source, count: int, way: Way) -> bool:
    """True where a count rounds to the stated figure: it differs by at most half of the last digit that is printed."""
    stated = Decimal(figure.stated)
    places = -int(stated.as_tuple().exponent)
    if source.decimals is not None and figure.unit:
        places = max(places, source.decimals)
    return abs(scaled(figure, count, way) - stated) <= Decimal(5).scaleb(-places - 1)


def scaled(figure: Figure, count: int, way: Way) -> Decimal:
    """A count in the unit of a figure."""
    unit = PREFIXES.get(figure.unit, 1)
    if "binary" in way.options:
        unit = {10**6: 2**20, 10**9: 2**30}.get(unit, unit)
    return Decimal(count * way.times) / unit


# The models of published figures, made without weights by the packages that define them.


#: A module, and its inputs as ``profile`` takes them.
Made: TypeAlias = "tuple[nn.Module, object]"


def build(name: str, shape: tuple[int, ...], reparameterized: bool = False) -> Made:
    """A module on the meta device where that is possible, and its inputs.

    Args:
        name: such as ``timm:resnet50``.
        shape: of the image, without the batch.
        reparameterized: whether branches are fused as for inference.

    Raises:
        InputError: the package is not installed, or does not know the model.
    """
    package, _, model = name.partition(":")
    try:
        return BUILDERS[package](model, shape, reparameterized)
    except ImportError as error:
        raise InputError(f"{name}: {package} is not installed ({error})") from error


def _timm(name: str, shape: tuple[int, ...], reparameterized: bool) -> Made:
    timm = imported("timm", "timm.layers", "timm.models")
    if not timm.is_model(name):
        raise InputError(f"timm:{name}: timm {timm.__version__} has no such model")
    config = timm.get_pretrained_cfg(name)
    options = {}
    if config is not None and config.fixed_input_size and config.input_size[-1] != shape[-1]:
        options["img_size"] = shape[-1]
    with _unfused(timm):
        if reparameterized:  # computes with the weights, so they have to be there
            module = timm.models.reparameterize_model(timm.create_model(name, pretrained=False, **options).eval())
        else:
            module = _on_meta(lambda: timm.create_model(name, pretrained=False, **options)).eval()
    return module, (1, *shape)


@contextlib.contextmanager
def _unfused(timm: ModuleType) -> Iterator[None]:
    """Make timm's models without PyTorch's own attention, which some tools do not count."""
    before = timm.layers.use_fused_attn()
    timm.layers.set_fused_attn(False)
    try:
        yield
    finally:
        timm.layers.set_fused_attn(before)


def _torchvision(name: str, shape: tuple[int, ...], reparameterized: bool) -> Made:
    models = imported("torchvision").models
    options: dict[str, object] = {"weights": None}
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = False
    if name == "googlenet":
        options["aux_logits"] = False  # its weights are published without the auxiliary heads
    if name.startswith("vit_"):
        options["image_size"] = shape[-1]
    try:
        builder = models.get_model_builder(name)
    except ValueError as error:
        raise InputError(f"torchvision:{name}: {error}") from error
    if "segmentation" in builder.__module__:
        options |= {"weights_backbone": None, "num_classes": 21}
        options |= {} if "lraspp" in name else {"aux_loss": True}
    elif "detection" in builder.__module__:
        options |= {"weights_backbone": None}
    module = _on_meta(lambda: builder(**options))
    image = (1, *shape)
    return module.eval(), [image, image] if name.startswith("raft") else image


def _pretrainedmodels(name: str, shape: tuple[int, ...], reparameterized: bool) -> Made:
    """One of Remi Cadene's models."""
    package = imported("pretrainedmodels")
    if name not in package.model_names:
        raise InputError(f"pretrainedmodels:{name}: no such model")
    return _on_meta(lambda: package.__dict__[name](num_classes=1000, pretrained=None)).eval(), (1, *shape)


def _open_clip(name: str, shape: tuple[int, ...], reparameterized: bool) -> Made:
    """One tower of a CLIP model, ``NAME/image`` or ``NAME/text``."""
    open_clip, timm = imported("open_clip"), imported("timm", "timm.layers")
    name, _, tower = name.partition("/")
    config = open_clip.get_model_config(name)
    if config is None:
        raise InputError(f"open_clip:{name}: open_clip {open_clip.__version__} has no such model")
    if tower == "text" and "hf_model_name" in config["text_cfg"]:
        raise InputError(f"open_clip:{name}: its text tower is made from a configuration on a model hub")
    builder = {"image": "_build_vision_tower", "text": "_build_text_tower"}[tower]
    part = {"image": "vision_cfg", "text": "text_cfg"}[tower]
    quick = config.get("quick_gelu", False)
    with _unfused(timm):
        module = _on_meta(lambda: getattr(open_clip.model, builder)(config["embed_dim"], config[part], quick)).eval()
    if tower == "image":
        return module, (1, *shape)
    return module, [f"text:i64:1x{shape[-1]}"]


def _ultralytics(name: str, shape: tuple[int, ...], reparameterized: bool) -> Made:
    """A YOLO model by the name of its configuration, in memory: its strides come from a run."""
    tasks = imported("ultralytics.nn.tasks")
    kinds = {"seg": "SegmentationModel", "pose": "PoseModel", "cls": "ClassificationModel", "obb": "OBBModel"}
    _, _, task = name.partition("-")
    model = getattr(tasks, kinds.get(task.partition("-")[0], "DetectionModel"))
    classes = {"obb": 15, "oiv7": 601}.get(task)  # those of DOTA and of Open Images; else what the configuration says
    logging.getLogger("ultralytics").setLevel(logging.ERROR)  # it would print a summary
    try:
        module = model(f"{name.removesuffix('-oiv7')}.yaml", nc=classes, verbose=False)
    except FileNotFoundError as error:
        raise InputError(f"ultralytics:{name}: no such model") from error
    if reparameterized:
        module = module.fuse(verbose=False)
    return module.eval(), (1, *shape)


def _on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The module that a function makes, without memory for its weights."""
    import torch

    try:
        with torch.device("meta"):
            return make()
    except (NotImplementedError, RuntimeError):  # it reads values while it is made
        return make().to("meta")


#: Package -> how its models are made.
BUILDERS: dict[str, Callable[[str, tuple[int, ...], bool], Made]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "open_clip": _open_clip,
    "pretrainedmodels": _pretrainedmodels,
    "ultralytics": _ultralytics,
}
