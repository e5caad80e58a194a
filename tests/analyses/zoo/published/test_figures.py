"""The published figures: the records are sound, and a sample comes out today as recorded."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import replace

import pytest
from packaging.version import Version

from flopwise._version import __version__
from flopwise.analyses.zoo.published.figures import PREFIXES, Figure, Way, agrees, figures, scaled, sources
from flopwise.conventions import CONVENTIONS
from flopwise.errors import InputError

#: A page at a commit or at a release.
PINNED = re.compile(r"https://github\.com/[^/]+/[^/]+/blob/([0-9a-f]{40}|v\d+\.\d+\.\d+)/")

EVERY = figures()
OPERATIONS = [figure for figure in EVERY if figure.quantity == "operations"]


def test_there_are_many_and_most_are_reproduced() -> None:
    """A floor against accidents, well below the share: figures are recorded whether they are reproduced or not."""
    assert len(OPERATIONS) >= 500
    for part in (OPERATIONS, EVERY):
        assert sum(figure.reproduced for figure in part) >= 0.9 * len(part)


def test_pages_of_yolo_are_recorded_whole() -> None:
    tables = {"yolov8.md": {"", "oiv7", "seg", "cls", "pose", "pose-p6", "obb"}}
    tables["yolo11.md"] = tables["yolov8.md"] - {"oiv7", "pose-p6"}
    for page, tasks in tables.items():
        models = {figure.model for figure in EVERY if figure.page.endswith(page)}
        assert {model.partition("-")[2] for model in models} == tasks
        assert len(models) == 5 * len(tasks) - 4 * ("pose-p6" in tasks)


def test_timm_has_rows_of_every_size() -> None:
    """Its table is sorted by speed; rows at even steps keep large models from being left out."""
    operations = [float(figure.stated) for figure in figures("timm") if figure.quantity == "operations"]
    for least in (0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128):
        assert sum(least <= stated < 2 * (least or 0.25) for stated in operations) >= 5, least


def test_every_tower_of_openclip_is_recorded() -> None:
    assert len({figure.model for figure in figures("open_clip")}) == 2 * 82


@pytest.mark.parametrize("source", list(sources()))
def test_each_figure_says_where_it_stands(source: str) -> None:
    own = figures(source)
    assert own
    for figure in own:
        assert PINNED.match(figure.page), f"{figure.page} may change: link the commit or the release that was read"
        assert figure.quantity in ("operations", "parameters"), figure
        assert figure.unit in ("", *PREFIXES), figure
        assert 2010 < figure.year < 2100, figure
        assert all(extent.isdecimal() for extent in figure.input.split("x")), figure
        float(figure.stated)


def test_no_figure_stands_twice() -> None:
    keys = Counter((f.source, f.model, f.input, f.quantity) for f in EVERY)
    assert [key for key, times in keys.items() if times > 1] == []


def test_recorded_counts_round_to_what_is_stated() -> None:
    known = sources()
    for figure in EVERY:
        way = Way.from_text(figure.way or "macs")
        assert way.convention in (*CONVENTIONS, "params"), figure
        if figure.reproduced:
            assert figure.count is not None
            assert agrees(figure, known[figure.source], figure.count, way), figure
            assert not figure.note, figure
        else:
            assert figure.note, figure


def test_recorded_with_one_version_and_no_later_one() -> None:
    (recorded,) = {source.versions.partition(", ")[0].removeprefix("flopwise ") for source in sources().values()}
    assert Version("0") < Version(recorded) <= Version(__version__)


@pytest.mark.parametrize(
    ("stated", "unit", "decimals", "way", "least", "most"),
    [
        ("4.12", "G", None, "mmcv", 4_115_000_000, 4_125_000_000),
        ("0.4", "G", 2, "fvcore", 395_000_000, 405_000_000),
        ("0.4", "G", None, "fvcore", 350_000_000, 450_000_000),
        ("8.82", "G", 2, "2*macs", 4_407_500_000, 4_412_500_000),
        ("1.70", "G", None, "thop binary", 1_819_992_392, 1_830_729_809),
        ("25557032", "", 3, "params", 25_557_032, 25_557_032),
    ],
)
def test_half_of_the_last_digit(stated: str, unit: str, decimals: int | None, way: str, least: int, most: int) -> None:
    figure = replace(EVERY[0], stated=stated, unit=unit)
    source = replace(sources()["timm"], decimals=decimals)
    assert agrees(figure, source, least, Way.from_text(way))
    assert agrees(figure, source, most, Way.from_text(way))
    assert not agrees(figure, source, least - 1, Way.from_text(way))
    assert not agrees(figure, source, most + 1, Way.from_text(way))


def test_ways_are_written_as_they_are_read() -> None:
    for text in {figure.way for figure in EVERY if figure.way}:
        assert str(Way.from_text(text)) == text


def test_scaled() -> None:
    figure = replace(EVERY[0], unit="G")
    assert scaled(figure, 2**30, Way.from_text("thop binary")) == 1
    assert scaled(figure, 10**9, Way.from_text("2*macs")) == 2


@pytest.mark.parametrize(("source", "models"), [("nowhere", ()), (None, ("no such model",))])
def test_what_is_not_there(source: str | None, models: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        figures(source, models)


#: Source and model: small ones of every source and every way.
SAMPLE = [
    ("torchvision", "alexnet IMAGENET1K_V1"),
    ("torchvision", "mobilenet_v3_small IMAGENET1K_V1"),
    ("ptflops", "resnet18"),
    ("thop", "resnet18"),
    ("convnet-burden", "squeezenet1-1"),
    ("timm", "resnet18"),
    ("timm", "vit_tiny_patch16_224"),
    ("timm", "levit_128s"),
    ("mmpretrain", "SE-ResNet-50"),
    ("pycls", "RegNetX-200MF"),
    ("swin", "Swin-T"),
    ("convnext", "ConvNeXt-T (22K)"),
    ("open_clip", "ViT-S-32 text"),
    ("open_clip", "RN50 image"),
    ("ultralytics", "YOLOv8n"),
    ("ultralytics", "YOLOv8n-oiv7"),
    ("ultralytics", "YOLO11n"),
    ("ultralytics", "YOLO11n-obb"),
]


@pytest.mark.parametrize(("source", "model"), SAMPLE)
def test_a_sample_comes_out_as_recorded(source: str, model: str) -> None:
    pytest.importorskip("torch")
    from flopwise.api.published import check

    chosen: list[Figure] = [figure for figure in figures(source) if figure.model == model]
    assert chosen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = list(check(chosen))
    if any("not installed" in result.obstacle for result in results):
        pytest.skip(results[0].obstacle)
    assert [(r.now.way, r.now.count) for r in results] == [(f.way, f.count) for f in chosen]
