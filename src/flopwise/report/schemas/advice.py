"""Advice, and the rules that give it."""

from __future__ import annotations

from flopwise.report.schemas.notation import By, Member
from flopwise.report.schemas.parts import MODEL, NOTES

ADVICE: dict[str, Member] = {
    "model": MODEL,
    "environment": (
        By("text|integer|number|null", "fact"),
        "device, engine and level that times are computed for; train of a training step",
    ),
    "advice": (
        [
            {
                "rule": ("text", "the rule"),
                "layers": (["text"], "the place"),
                "kind": ("text", '"same" result, "other" network that is to be retrained, or "run": how it is run'),
                "macs_saved": ("integer", "multiply-accumulates less"),
                "bytes_saved": ("integer", "bytes less"),
                "kept_bytes_saved": ("integer|null", "bytes less that are kept for the backward pass (--train)"),
                "time_saved_ns": ("integer|null", "time less by the roofline of the executed graph"),
                "time_share": ("number|null", "the same as a share of the whole"),
                "measured_share": (
                    "number|null",
                    "share of the time of the operators that go that is saved, as measured here (--measure)",
                ),
                "source": ("text", "where the rule is from"),
                "text": ("text", "the advice in words"),
            }
        ],
        "what saves most first",
    ),
    "notes": NOTES,
}

ADVICE_RULES: dict[str, Member] = {
    "rules": (
        [
            {
                "name": ("text", "the rule"),
                "about": ("text", "the change"),
                "exactness": ("text", '"same", "other" or "run"'),
                "source": ("text", "where it is from"),
            }
        ],
        "every rule",
    )
}
