"""Elements of stored weights."""

from __future__ import annotations

from flopwise.report.schemas.notation import By, Kind, Maybe, Member, Open
from flopwise.report.schemas.parts import MODEL, NOTES, SHAPE

_STORED: dict[str, Member] = {
    "length": ("integer", "elements"),
    "zeros": ("integer", "of these, zero"),
    "nan": ("integer", "of these, not a number"),
    "infinite": ("integer", "of these, infinite"),
    **{
        name: ("number|integer|null", words)
        for name, words in {
            "min": "least element",
            "max": "largest element",
            "mean": "mean",
            "deviation": "standard deviation",
            "absmax": "largest magnitude",
            "l1": "sum of magnitudes",
            "l2": "root of the sum of squares",
        }.items()
    },
}

_BINS: dict[str, Member] = {
    "model": (
        {"source": ("text", "the file, URL or module"), "format": ("text", "its format")},
        "where the weights are from",
    ),
    "by": ("text", "layer or tensor"),
    "bins": ("integer", "bins of a histogram"),
}

_EFFECTIVE: Kind = Maybe(
    {
        "zeros": ("integer|null", "without zeros; null where these are unknown"),
        "search": ("integer|null", "without zero blocks of the shape that saves most"),
        "blocks": (By("integer|null", "block"), "without zero blocks, by shape"),
        "patterns": (By("integer|null", "pattern"), "with a structured pattern, by pattern"),
    }
)

HISTOGRAMS: dict[str, Member] = {
    **_BINS,
    "histograms": (
        [
            {
                "name": ("text", "layer or tensor"),
                "op": ("text|null", "the layer's operator"),
                "length": ("integer", "elements"),
                "zeros": ("integer", "of these, zero"),
                "edges": (Maybe(["number|integer"]), "the bins' edges; null without elements"),
                "counts": (Maybe(["integer"]), "elements in each bin"),
            }
        ],
        "one for each",
    ),
}

SPARSITY: dict[str, Member] = {
    "model": MODEL,
    "asked": (
        {
            "blocks": (["text"], "shapes of blocks"),
            "patterns": (["text"], "structured patterns"),
            "min_size": ("integer", "blocks are sought in tensors with more elements"),
            "min_ratio": ("number|integer", "and with a larger share of zeros"),
            "tolerance": ("number|integer", "by how much the share of zero blocks may be below that of zeros"),
            "ranks": (Maybe(["integer"]), "and of these ranks; null: of two or more"),
            "order": ("text", "whether rows and columns are as stored"),
        },
        "what was asked",
    ),
    "totals": (
        {
            "tensors": ("integer", "tensors"),
            "elements": ("integer", "their elements"),
            "zeros": ("integer", "of these, zero"),
            "ratio": ("number|integer|null", "the same as a share; null where no zeros are known"),
            "unknown": ("integer", "tensors that could not be read"),
            "macs": ("integer|null", "multiply-accumulates of the layers"),
            "effective_macs": (_EFFECTIVE, "of these, without zeros"),
        },
        "the whole model",
    ),
    "tensors": (
        [Open({"name": ("text", "the tensor")}, "text|number|integer|flag|null|object|array")],
        "the tensors",
    ),
    "layers": (
        [
            {
                "name": ("text", "the layer"),
                "op": ("text", "its operator"),
                "tensors": (["text"], "its tensors"),
                "elements": ("integer", "their elements"),
                "zeros": ("integer|null", "of these, zero; null where that is unknown"),
                "ratio": ("number|integer|null", "the same as a share"),
                "macs": ("integer|null", "its multiply-accumulates"),
                "effective_macs": (_EFFECTIVE, "of these, without zeros"),
            }
        ],
        "the layers",
    ),
    "notes": NOTES,
}

WEIGHTS: dict[str, Member] = {
    **_BINS,
    "totals": ({"bytes": ("integer", "bytes"), **_STORED}, "all together"),
    "entries": (
        [
            {
                "name": ("text", "layer or tensor"),
                "op": ("text|null", "the layer's operator"),
                "tensors": (["text"], "its tensors"),
                "shapes": ([SHAPE], "their shapes"),
                "dtypes": (["text"], "their element types"),
                "bytes": ("integer", "their bytes"),
                **_STORED,
                **{
                    f"p{rank}": ("number|integer|null", f"{rank} % of the elements are smaller")
                    for rank in (1, 5, 25, 50, 75, 95, 99)
                },
                "histogram": (Maybe(["integer"]), "elements in each bin"),
            }
        ],
        "one for each",
    ),
    "notes": NOTES,
}
