"""What a request to a language model costs, on one page: prompt, one step, all steps, cache, what must fit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.report.sheet.columns import Value


def llm_report(result: Inference) -> Report:
    """The page of a request."""
    drawn = (result, sheet(result, Look()))
    return Report(lambda format, look: [sheet(result, look, format.data)], result.to_dict, {"llm": drawn})


def sheet(result: Inference, look: Look, named: bool = False) -> Sheet:
    """One line for each quantity; columns for the prompt, a single step, all steps, and prompt and steps together."""
    heads = (
        Head("quantity", "", "text", 0, prose=True),
        Head("prefill", f"prefill, {result.prompt:,} tokens", "number", 1),
        Head("decode", f"1 token after {result.decode.past:,}", "number", 1),
        Head("generate", f"{result.generate:,} tokens, one by one", "number", 2),
        Head("request", "the whole request", "number", 3),
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
        complete=True,
    )


def _lines(result: Inference) -> list[tuple[Value, ...]]:
    """Name, prefill, decode, generation and request of each quantity; empty where it has no meaning."""
    pre, step = result.prefill, result.decode

    def both(name: str, of: str, generate: int | str = "", request: int | str = "") -> tuple[Value, ...]:
        return name, getattr(pre, of), getattr(step, of), generate, request

    lines: list[tuple[Value, ...]] = [both("MACs", "macs", result.generated_macs, result.request_macs)]
    lines.append(both("MACs that the masks leave", "needed_macs"))
    lines += [
        both("MACs of attention's scores and values", "attention_macs"),
        (
            "the same, percent of all MACs",
            *(round(100 * s.attention_macs / max(s.macs, 1)) for s in (pre, step)),
            "",
            "",
        ),
        both("FLOPs", "flops", result.generated_flops, result.request_flops),
        ("FLOPs by the rule of thumb, 2 N per token", *_rule(result)),
        ("weights touched, bytes", pre.weights.most, step.weights.most, "", ""),
        ("cache read, bytes", pre.state_bytes, step.state_bytes, "", ""),
        both("weights and cache read, bytes", "bytes", result.generated_bytes, result.request_bytes),
        both("activations alive at once, bytes", "activation_bytes"),
        ("FLOPs per byte", *(round(intensity) for intensity in _intensities(result))),
    ]
    if result.device is not None:
        first, then = result.device.prefill, result.device.decode
        name = result.device.device
        every = result.device.generate
        seconds = first.seconds, then.seconds, every.seconds, result.device.request_seconds
        lines.append((f"microseconds at least, {name}", *(round(each * 1e6) for each in seconds)))
        rates = result.device.prefill_tokens_per_second, result.device.decode_tokens_per_second
        lines.append(("tokens per second, at most", *(int(rate) if rate else None for rate in rates), "", ""))
        lines.append(("what bounds them", first.roof, then.roof, every.roof, ""))
    lines += [(f"MACs, {name}", "", macs, every, "") for name, (macs, every) in result.rewrites.items()]
    return lines


def _rule(result: Inference) -> tuple[int, int, int, int]:
    """Two operations for each active parameter and token: a third of 6 N, which stands for training."""
    counts = result.prefill.tokens, result.decode.tokens, result.batch * result.generate
    prefill, step, generated = (2 * result.active_params * tokens for tokens in counts)
    return prefill, step, generated, prefill + generated


def _intensities(result: Inference) -> list[Fraction]:
    """FLOPs for each byte that must be read: of the prompt, of a step, of all steps, and of the request."""
    generated = Fraction(result.generated_flops, max(result.generated_bytes, 1))
    request = Fraction(result.request_flops, max(result.request_bytes, 1))
    return [result.prefill.intensity, result.decode.intensity, generated, request]


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
