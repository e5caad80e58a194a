"""A profile, or a comparison, as one page that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flopwise.report.html import bound, compare, llm, model, zoo
from flopwise.report.sheet.sheet import Look, model_name

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Comparison
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.timing.bound import Bound
    from flopwise.analyses.zoo.overview import Overview
    from flopwise.profiles.profile import Profile
    from flopwise.report.sheet.listing import Choice
    from flopwise.report.sheet.sheet import Figure, Sheet


def render_profile(profile: Profile, choice: Choice, look: Look) -> str:
    """The page: all layers, whatever a text table would show; its table is sorted and filtered where it is read."""
    return model.render(profile, f"{model_name(profile, look)} – flopwise")


def render_bound(result: Bound, title: str, device: str, summary: Sequence[Figure], look: Look) -> str:
    """The page: figures, roofline, waterfall, and all layers."""
    return bound.render(result, title, device, summary)


def render_llm(result: Inference, sheet: Sheet, look: Look) -> str:
    """The page: figures of a request, and cost and memory against the context."""
    return llm.render(result, sheet)


def render_zoo(overview: Overview, look: Look) -> str:
    """The page: models, operators and unique layers of a data set."""
    return zoo.render(overview)


def render_comparison(
    comparison: Comparison, figures: Sequence[str], full: bool, titles: Mapping[str, str], look: Look
) -> str:
    """The page: all layers and figures; ``figures`` and ``full`` say what is shown at first."""
    return compare.render(comparison, figures, full, titles)
