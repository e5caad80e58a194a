"""Times: floors, devices, traces."""

from __future__ import annotations

from flopwise.report.schemas.notation import MODEL, NOTES, WHAT_IF, By, Kind, Maybe, Member, Open

_DEVICE: Kind = {
    "id": ("text", "the name that --device takes"),
    "name": ("text", "the device's full name"),
    "aliases": (["text"], "other names that --device takes"),
    "kind": ("text", "cpu, gpu, tpu, npu or mcu"),
    "vendor": ("text", "its vendor"),
    "cores": ("integer|null", "cores of a CPU"),
    "memory_bytes": ("integer|null", "memory as the vendor states it"),
    "memory_reported": (
        Maybe(
            {
                "bytes": ("integer", "bytes"),
                "kind": ("text", "where the figure comes from"),
                "source": ("text", "its source"),
                "url": ("text|null", "the source's address"),
            }
        ),
        "memory as the device's driver reports it",
    ),
    "flash_bytes?": ("integer", "of a microcontroller: its flash, 0 where it has none of its own"),
    "bank_bytes?": ("integer", "of a microcontroller: the largest bank of its SRAM, 0 where it is one"),
    "source?": ("text", "of a microcontroller: the document that says its memory"),
    "url?": ("text", "the document's address"),
    "clock": (
        Maybe(
            {
                "rated": ("integer", "MHz of the figures"),
                "highest": ("integer", "MHz at most"),
                "source": ("text", "the source"),
                "url": ("text|null", "its address"),
            }
        ),
        "clocks, where the device runs above the rated one",
    ),
    "caches": (By("integer", "level"), "bytes of each cache"),
    "figures": (
        [
            {
                "what": ("text", "matrix, vector, dram, l1, l2, link, network ..."),
                "dtype": ("text|null", "element type of arithmetic"),
                "via": ("text", "the kind of a link"),
                "devices": ("integer|null", "how many devices a link joins"),
                "value": ("number|integer", "the figure"),
                "unit": ("text", "its unit"),
                "dense": ("flag", "false for figures that need structured sparsity"),
                "kind": ("text", "datasheet, derived or measured"),
                "above_rated_mhz": ("integer|null", "the clock of a figure above the rated clock"),
                "source": ("text", "the source"),
                "url": ("text|null", "its address"),
            }
        ],
        "peaks, each with its source",
    ),
    "note": ("text|null", "what else is to be known"),
}

_SIDE: Kind = {
    "model": ("text|null", "the model that the time was put on"),
    "format": ("text", "the trace's format"),
    "step": ("text", "the step that is shown"),
    "steps": ("integer", "steps in the trace"),
    "window_ns": ("integer", "from the beginning of the step to its end"),
    "covered_ns": ("integer", "time of all lanes"),
    "busy_ns": ("integer", "time in which something ran, all lanes added"),
    "wall_ns": ("integer", "time in which something ran, each instant once"),
}

BOUND: dict[str, Member] = {
    "model": MODEL,
    "environment": (
        {
            "device": (
                {
                    "id": ("text", "its name in the table of devices"),
                    "name": ("text", "its full name"),
                    "kind": ("text", "cpu, gpu ..."),
                    "cores": ("integer|null", "cores of a CPU"),
                },
                "the device",
            ),
            "threads": ("integer|null", "threads that were assumed"),
            "engine": (Maybe(Open({}, "text|number|integer|flag|null")), "the engine that measured"),
            "machine": (Maybe(Open({}, "text|number|integer|flag|null|object|array")), "the machine it ran on"),
            "sessions": ("integer", "how often it was started"),
            "roof": ("text", "compute or memory: what limits the whole"),
            "compute_ns": ("integer|null", "time of the arithmetic at its peak"),
            "memory_ns": ("integer|null", "time of the bytes at theirs"),
            "must_move": (
                {
                    "weights": ("integer", "bytes of weights"),
                    "inputs": ("integer", "bytes of inputs"),
                    "outputs": ("integer", "bytes of outputs"),
                    "level": ("text", "the level of memory that they come from"),
                },
                "bytes that must move at least",
            ),
            "peaks": (
                [
                    {
                        "what": ("text", "matrix, vector, dram ..."),
                        "dtype": ("text|null", "element type of arithmetic"),
                        "value": ("number|integer", "the peak"),
                        "unit": ("text", "its unit"),
                        "kind": ("text", "datasheet, derived or measured"),
                        "source": ("text", "its source"),
                        "url": ("text|null", "the source's address"),
                    }
                ],
                "the peaks that times rest on",
            ),
        },
        "where",
    ),
    "floors": (
        {
            "physical_ns": ("integer|null", "no device of this kind is faster"),
            "engine_ns": ("integer|null", "sum of the engine's own kernels, operands in caches"),
            "streamed_ns": ("integer|null", "the same, operands from memory"),
            "critical_path_ns": ("integer|null", "the longest chain of kernels"),
            "at_measured_peaks_ns": ("integer|null", "the physical floor at peaks that were measured here"),
        },
        "least times",
    ),
    "measured_ns": ("integer|null", "the model's own time"),
    "noise": ("number|null", "spread of the measurement"),
    "coverage": (
        {
            "nodes": ("integer", "rows"),
            "measured": ("integer", "of these, measured"),
            "macs_share": ("number|null", "share of the multiply-accumulates that was measured"),
        },
        "how much was measured",
    ),
    "verdict": ("text", "how good the measurement is; roofline where there is none"),
    "rows": (
        [
            {
                "name": ("text", "the row"),
                "op": ("text", "its operator"),
                "time_ns": ("integer|null", "measured time"),
                "floor_ns": ("integer|null", "least time"),
                "physical_ns": ("integer|null", "least time of the device"),
                "roof": ("text", "compute, memory or none: what limits it"),
                "status": ("text", "measured, roofline, ..."),
                "roofline_ns": ("integer|null", "time by the roofline"),
                "macs": ("integer|null", "multiply-accumulates"),
                "flops": ("integer|null", "FLOPs"),
                "bytes": ("integer|null", "bytes that must move"),
                "dtypes": (["text"], "element types"),
                "streamed_ns": ("integer|null", "measured time, operands from memory"),
                "layers": (["text"], "the model's layers in it, where they are several or named otherwise"),
            }
        ],
        "the rows",
    ),
    "notes": NOTES,
    "run?": (
        {
            "measured_ns": ("integer", "the time that was given"),
            "mfu": ("number|null", "products at the rated dense peak over it"),
            "floor_share": ("number", "the physical floor over it"),
            "roofline_share": ("number", "the layers' rooflines over it"),
        },
        "a measured time (--measured)",
    ),
    "what_if?": WHAT_IF,
}

DEVICES: dict[str, Member] = {"devices": ([_DEVICE], "the devices")}

TRACE: dict[str, Member] = {
    "model": ("text|null", "the model that the time was put on"),
    "trace": (
        {
            "format": ("text", "kineto, onnxruntime or tensorrt"),
            "device": ("text|null", "the device that it names"),
            "steps": ("integer", "steps in it"),
            "step": ("text", "the step that is shown"),
            "window_ns": ("integer", "from the beginning of the step to its end"),
            "split": ("text|null", "how segments were divided (--split), which is an estimate"),
        },
        "the trace",
    ),
    "totals": (
        {
            "rows_ns": ("integer", "on single layers"),
            "segments_ns": ("integer", "on several layers together"),
            "remainder_ns": ("integer", "on no layer"),
            "covered_ns": ("integer", "the sum of the three"),
            "busy_ns": ("integer", "time in which something ran, all lanes added"),
            "wall_ns": ("integer", "time in which something ran, each instant once"),
            "mfu": ("number|null", "model FLOPs utilisation, where the device's peak is known"),
        },
        "times, whose parts add up to the nanosecond",
    ),
    "matched": (
        {
            "rows": ("integer", "layers with a time"),
            "of": ("integer", "layers"),
            "product_time_share": (
                "number|integer|null",
                "share of the products' time on layers of their shapes",
            ),
        },
        "how much of the model was found",
    ),
    "rows": (
        [
            {
                "name": ("text", "the layer; without a model an operator with its shapes"),
                "op": ("text", "its operator"),
                "phase": ("text", "forward or backward"),
                "time_ns": ("integer|null", "its time"),
                "launches": ("integer", "events that it took"),
                "flops": ("integer|null", "its FLOPs"),
                "bytes": ("integer|null", "bytes that it must move"),
                "floor_ns": ("integer|null", "its least time on the device"),
                "status": ("text", "matched, segment, folded, ..."),
                "median_ns": ("integer|null", "median over the steps"),
                "spread": ("number|integer|null", "spread over the steps"),
            }
        ],
        "the layers",
    ),
    "segments": (
        [
            {
                "name": ("text", "the segment"),
                "phase": ("text", "forward or backward"),
                "time_ns": ("integer", "its time"),
                "launches": ("integer", "events that it took"),
                "flops": ("integer|null", "its FLOPs"),
                "layers": (["text"], "its layers"),
            }
        ],
        "layers that share a time",
    ),
    "remainder": (By("integer", "kind"), "nanoseconds of no layer: layout, copies, optimiser, gaps ..."),
    "notes": NOTES,
    "what_if?": WHAT_IF,
}

TRACE_COMPARISON: dict[str, Member] = {
    "before": (_SIDE, "the first trace"),
    "after": (_SIDE, "the second"),
    "changes": (
        [
            {
                "name": ("text", "the layer"),
                "op": ("text", "its operator"),
                "phase": ("text", "forward or backward"),
                "layers": (["text"], "the layers in it"),
                "verdict": ("text", "slower, faster, same, added or gone"),
                "before_ns": ("integer|null", "its time in the first"),
                "after_ns": ("integer|null", "its time in the second"),
                "more_ns": ("integer", "the second less the first"),
                "spread_ns": ("integer|null", "spread over the steps of both"),
            }
        ],
        "layer by layer",
    ),
    "notes": NOTES,
}
