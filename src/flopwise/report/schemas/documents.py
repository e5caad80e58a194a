"""Every document by its name, with the command that writes it."""

from __future__ import annotations

from typing import NamedTuple

from flopwise.report.schemas import advice, counts, formulas, language, memory, stored, timing
from flopwise.report.schemas.notation import Member, Open


class Document(NamedTuple):
    """A JSON document."""

    #: The command that writes it.
    command: str
    kind: dict[str, Member] | Open


#: Name of a document -> what is in it.
DOCUMENTS: dict[str, Document] = {
    "advice": Document("advise", advice.ADVICE),
    "advice-rules": Document("advise --rules", advice.ADVICE_RULES),
    "bound": Document("bound", timing.BOUND),
    "check": Document("check", counts.CHECK),
    "compare": Document("compare", counts.COMPARE),
    "devices": Document("devices", timing.DEVICES),
    "diffusion": Document("llm", language.DIFFUSION),
    "flops": Document("flops", counts.FLOPS),
    "formula": Document("formula", formulas.FORMULA),
    "formula-solution": Document("formula --solve", formulas.FORMULA_SOLUTION),
    "formula-source": Document("formula --source", formulas.FORMULA_SOURCE),
    "formula-values": Document("formula --at", formulas.FORMULA_VALUES),
    "histograms": Document("weights --bins-json", stored.HISTOGRAMS),
    "layers": Document("layers", counts.LAYERS),
    "llm": Document("llm", language.LLM),
    "llm-log": Document("llm --log", language.LLM_LOG),
    "llm-train": Document("llm --train", language.LLM_TRAIN),
    "memory": Document("memory", memory.MEMORY),
    "plan": Document("memory --plan", memory.PLAN),
    "profile": Document("profile", counts.PROFILE),
    "profiles": Document("profile DIRECTORY", counts.PROFILES),
    "published": Document("zoo published", counts.PUBLISHED),
    "shapes": Document("shapes", counts.SHAPES),
    "sparsity": Document("sparsity", stored.SPARSITY),
    "table": Document("table", counts.TABLE),
    "trace": Document("trace", timing.TRACE),
    "trace-comparison": Document("trace A B", timing.TRACE_COMPARISON),
    "weights": Document("weights", stored.WEIGHTS),
}
