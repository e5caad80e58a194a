"""The page of the formulas that engines and trainers use for language models, beside the exact counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.analyses.llm.engines import BY_PARAMETERS, BY_SIZES, Sizes, needed, stated
from tests.analyses.llm.model_cards import CARDS

from flopwise.conventions import get

RECORDED = json.loads((Path(__file__).parents[1] / "tests" / "recorded" / "mfu.json").read_text("utf-8"))

#: Tokens of the prompt that is counted.
PROMPT = 8192

ABOUT = f"""\
Engines and trainers estimate the operations of a language model with formulas of its configuration, for the
utilisation that they print. flopwise has them as conventions (`-c vllm`): each is built on the program's own
operators, and tests hold it against the formula in its file. Here they stand beside what the result of a prompt of
{PROMPT:,} tokens needs, for twelve models: pairs that causal masks and windows leave, of the vocabulary the scores
of the last position, and nothing but products.

*Of exact* is a formula's figure divided by the exact one. The columns to its right say where the difference comes
from, in percent of the exact figure; they add up to it."""

#: Why a tool's figure differs, by convention.
CAUSES = {
    "vllm": "Each query counts the whole context or a full window: no causal mask is followed. Routers are left out.",
    "sglang": (
        "Causal masks are followed, windows are not. The vocabulary is left out, routers too, and a layer of "
        "experts counts as one MLP of the configuration's `intermediate_size`. Latent attention counts as "
        "heads of 256 with as many heads of keys. For latent attention, and for Qwen3's experts, the "
        "convention has no figure or another one, as the program does not show what SGLang takes; the figures "
        "here follow the configuration."
    ),
    "verl": (
        "No causal mask is followed; windows are where they take turns with full attention. The vocabulary "
        "counts for every position, once for scores and once for embeddings, which are looked up. Of latent "
        "attention values count as wide as keys. It is a formula for training, of which a third stands here. "
        "Of Mixtral, Gemma 2, OLMo 2 and Phi-4-mini the tool itself states 0, as it does not list their "
        "types; what its formula would give stands here."
    ),
    "veomni": (
        "Neither causal masks nor windows are followed. The vocabulary counts for every position, once for scores and "
        "once for embeddings, which are looked up. Of latent attention values count as wide as keys. It is a formula "
        "for training, of which a third stands here. Of Mistral, Mixtral, Gemma 2, OLMo 2, Phi-4-mini, gpt-oss and "
        "Kimi-K2 the tool itself states 0, as it does not list their types; what its formula would give stands here."
    ),
    "torch": (
        "Lightning has no formula of its own: `measure_flops`, which its `ThroughputMonitor` is given, runs PyTorch's "
        "`FlopCounterMode` over the program, here transformers'. All pairs count, masked or not, and the vocabulary "
        "for every position. Experts run as grouped products (`aten._grouped_mm`), of which that counter sees nothing."
    ),
    "megatron-bridge": (
        "Half of all pairs counts, without the half of a pair of each token with itself. The vocabulary "
        "counts for every position, as training has it. Routers are left out; norms of latents count. A third "
        "of a training step. Of gpt-oss the tool's settings write the window as (128, 0), which it takes as "
        "129 keys; 128 stand here."
    ),
    "torchtitan": (
        "All weights count as products, norms and biases too, and the vocabulary for every position; no "
        "causal mask is followed, windows are. A third of a training step."
    ),
    "transformers": (
        "Pairs count nothing. All experts count, taken or not, and the vocabulary for every position, but not "
        "where it shares its table with the embeddings. A third of a training step (`total_flos`)."
    ),
}

SHARES = """\
Twelve published shares of a peak (MFU) of training runs, with the rule that gives them from the published tokens a
second, the configuration and the device's rated peak. *By needed products* is the same share of the products that
the result needs, forward and backward, masks followed; it lies below where a rule counts masked pairs. DeepSeek
publishes its share twice: the first as torchtitan counts, without masks, the second with half of all pairs, as
Megatron-Bridge does. MPT's program says nothing of its masks, so that all of its pairs count in both columns.

Llama 3 405B has no published rate of tokens: 43 %, 41 % and 38 % are its 430, 400 and 380 TFLOP/s of each device
over the H100's 989. The papers of PaLM and DeepSeek were not opened when their figures were written down."""

#: Headings of conventions that go by another name than the tool.
TITLES = {"torch": "Lightning (torch)"}

TERMS = ("pairs", "vocabulary", "embeddings", "projections", "feed-forward", "routers", "norms and biases")


def engines_page() -> str:
    """The Markdown of docs/reference/engines.md."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "<!-- Generated by docs/generate.py from tests/analyses/llm/engines.py; do not edit. -->"
    yield "# Formulas of engines"
    yield ""
    yield from ABOUT.splitlines()
    for name in (*BY_SIZES, *BY_PARAMETERS):
        title = f"## {TITLES.get(name, name)}"
        yield from ("", title, "", get(name).summary, "", CAUSES[name], "", f"Source: {get(name).source}", "")
        yield from _table(name)

    yield from ("", "## Published shares of a peak", "", *SHARES.splitlines(), "")
    yield "| model | devices | tokens/s | published | rule | by the rule | by needed products | source |"
    yield "|---|---|--:|--:|---|--:|--:|---|"
    for row in RECORDED:
        percents = " | ".join(f"{row[key]:g} %" for key in ("rule_percent", "needed_percent"))
        source = row["source"].partition(" ")[0].rstrip(",")
        devices = f"{row['count']} × {row['device']}"
        published = f"{row['tokens_per_s']:,.0f} | {row['published_mfu_percent']:g} % | `{row['rule']}`"
        yield f"| {row['model']} | {devices} | {published} | {percents} | [{row['date']}]({source}) |"


def _table(name: str) -> Iterator[str]:
    lines: dict[str, tuple[int, int, dict[str, float]]] = {}
    for model, card in CARDS.items():
        layers = card.config["num_hidden_layers"]
        sizes = Sizes(card.config)
        exact, tool = needed(sizes, PROMPT), stated(name, sizes, PROMPT, card.model(layers).params)
        total = sum(exact.values())
        differences = {term: 100 * (tool.get(term, 0) - exact.get(term, 0)) / total for term in TERMS}
        lines[model] = 2 * total, 2 * sum(tool.values()), differences
    shown = [term for term in TERMS if any(differences[term] for _, _, differences in lines.values())]
    yield f"| model | exact, TFLOP | {name}, TFLOP | of exact | {' | '.join(shown)} |"
    yield f"|---|--:|--:|--:|{'--:|' * len(shown)}"
    for model, (exact_flops, flops, differences) in lines.items():
        cells = [f"{differences[term]:+.2f} %" if differences[term] else "" for term in shown]
        figures = f"{exact_flops / 1e12:.2f} | {flops / 1e12:.2f} | {flops / exact_flops:.3f}"
        yield f"| {model} | {figures} | {' | '.join(cells)} |"
