"""Every document by its name, with the command that writes it."""

from __future__ import annotations

from typing import NamedTuple

from flopwise.report.schemas import language, models, timing
from flopwise.report.schemas.notation import Member, Open


class Document(NamedTuple):
    """A JSON document."""

    #: The command that writes it.
    command: str
    kind: dict[str, Member] | Open


#: Name of a document -> what is in it.
DOCUMENTS: dict[str, Document] = {
    "advice": Document("advise", models.ADVICE),
    "advice-rules": Document("advise --rules", models.ADVICE_RULES),
    "bound": Document("bound", timing.BOUND),
    "check": Document("check", models.CHECK),
    "compare": Document("compare", models.COMPARE),
    "devices": Document("devices", timing.DEVICES),
    "diffusion": Document("llm", language.DIFFUSION),
    "flops": Document("flops", models.FLOPS),
    "formula": Document("formula", models.FORMULA),
    "formula-solution": Document("formula --solve", models.FORMULA_SOLUTION),
    "formula-source": Document("formula --source", models.FORMULA_SOURCE),
    "formula-values": Document("formula --at", models.FORMULA_VALUES),
    "histograms": Document("weights --bins-json", models.HISTOGRAMS),
    "layers": Document("layers", models.LAYERS),
    "llm": Document("llm", language.LLM),
    "llm-log": Document("llm --log", language.LLM_LOG),
    "llm-train": Document("llm --train", language.LLM_TRAIN),
    "memory": Document("memory", models.MEMORY),
    "plan": Document("memory --plan", models.PLAN),
    "profile": Document("profile", models.PROFILE),
    "profiles": Document("profile DIRECTORY", models.PROFILES),
    "published": Document("zoo published", models.PUBLISHED),
    "shapes": Document("shapes", models.SHAPES),
    "sparsity": Document("sparsity", models.SPARSITY),
    "table": Document("table", models.TABLE),
    "trace": Document("trace", timing.TRACE),
    "trace-comparison": Document("trace A B", timing.TRACE_COMPARISON),
    "weights": Document("weights", models.WEIGHTS),
}
