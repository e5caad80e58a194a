"""What a request to a language model costs, on one page: the prompt, one step, all steps, the cache, what must fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.llm.step import Step
    from flopwise.report.sheet.columns import Value


def llm_report(result: Inference) -> Report:
    """The page of a request."""
    return Report(lambda format, look: [sheet(result, look, format.data)], result.to_dict)


def sheet(result: Inference, look: Look, named: bool = False) -> Sheet:
    """One line for each quantity; a column for the prompt, one for a single step, one for all steps."""
    heads = (
        Head("quantity", "", "text", 0, prose=True),
        Head("prefill", f"prefill, {result.prompt:,} tokens", "number", 1),
        Head("decode", f"1 token after {result.decode.past:,}", "number", 1),
        Head("generate", f"{result.generate:,} tokens, one by one", "number", 2),
    )
    lines = tuple(Line(values) for values in _lines(result))
    batch = f"{result.batch} sequence{'s' if result.batch > 1 else ''}"
    kv = f", cache {result.kv_dtype}" if result.kv_dtype else ""
    return Sheet(
        heads=heads,
        lines=lines,
        about=() if named else (look.text(f"{result.source} · {result.name} · {result.dtype}{kv} · {batch}"),),
        summary=() if named else tuple(_figures(result, look)),
        notes=tuple(look.text(note) for note in result.notes),
    )


def _lines(result: Inference) -> list[tuple[Value, ...]]:
    """Name, prefill, decode and generation of each quantity; empty where it has no meaning."""
    pre, step = result.prefill, result.decode

    def both(name: str, of: str, total: int | str = "") -> tuple[Value, ...]:
        return name, getattr(pre, of), getattr(step, of), total

    lines: list[tuple[Value, ...]] = [both("MACs", "macs", result.generated_macs)]
    lines.append(both("MACs that the masks leave", "needed_macs"))
    lines += [
        both("MACs of attention's scores and values", "attention_macs"),
        both("FLOPs", "flops", result.generated_flops),
        ("weights touched, bytes", pre.weights.most, step.weights.most, ""),
        ("cache read, bytes", pre.state_bytes, step.state_bytes, ""),
        both("activations alive at once, bytes", "activation_bytes"),
        ("FLOPs per byte", _rounded(pre), _rounded(step), ""),
    ]
    if result.device is not None:
        first, then = result.device.prefill, result.device.decode
        name = result.device.device
        lines.append((f"microseconds at least, {name}", _micro(first.seconds), _micro(then.seconds), ""))
        rates = result.device.prefill_tokens_per_second, result.device.decode_tokens_per_second
        lines.append(("tokens per second, at most", *(int(rate) if rate else None for rate in rates), ""))
        lines.append(("what bounds them", first.roof, then.roof, ""))
    lines += [(f"MACs, {name}", "", macs, "") for name, macs in result.rewrites.items()]
    return lines


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)


def _rounded(step: Step) -> int:
    return round(step.intensity)


def _figures(result: Inference, look: Look) -> list[Figure]:
    """The figures of the whole model and of its memory, ready to be shown."""
    figures = [
        figure("parameters", result.params, "", look),
        figure("active parameters", result.active_params, "", look),
        figure("weights", result.weight_bytes, "B", look),
        figure("cache per token", result.cache_bytes_per_token, "B", look),
        figure("cache after the prompt", result.cache_bytes, "B", look),
        figure("cache after the last token", result.final_cache_bytes, "B", look),
    ]
    if result.memory_bytes is not None:
        figures.append(figure("must fit: weights, cache, activations", result.memory_bytes, "B", look))
    device = result.device
    if device is not None and device.memory_bytes is not None:
        fits = "fits" if device.fits else "does not fit"
        figures.append(figure(f"memory of {device.device} ({fits})", device.memory_bytes, "B", look))
        figures.append(
            figure(f"most sequences of {result.prompt + result.generate:,} tokens", device.largest_batch, "", look)
        )
        if device.largest_context is not None:
            figures.append(figure("longest context with this batch", device.largest_context, "", look))
    return figures
