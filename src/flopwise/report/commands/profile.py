"""The costs of a model, per layer, operator, module or precision, and in total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise._arguments import checked
from flopwise._results import Json
from flopwise.report.report import Report, as_text
from flopwise.report.sheet import Audience
from flopwise.report.sheet.columns import COLUMNS, cell
from flopwise.report.sheet.listing import Choice, listing
from flopwise.report.sheet.sheet import Look, Sheet, Value
from flopwise.rows import TRAINED, Sum

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


def profile_report(profile: Profile, choice: Choice, device: Device | None = None) -> Report:
    """The profile as a sheet, as JSON, and for formats that draw profiles in a way of their own.

    Args:
        profile: what to write.
        choice: the part of it that is shown.
        device: the device in whose memory the model is to fit; None for none.

    Raises:
        InputError: nothing can be said about the device.
    """
    if device is None:
        return Report(
            lambda format, look: [listing(profile, choice, look, format.audience)],
            lambda: content(profile, choice),
            {"profile": (profile, choice)},
        )
    from flopwise.report.room import WITHOUT, WITHOUT_PROGRAM, parts_of_memory, room_for, verdict_on

    room = room_for(profile, device)
    said = verdict_on(room, parts_of_memory(profile))

    def sheet(audience: Audience, look: Look) -> Sheet:
        lines = listing(profile, choice, look, audience)
        return lines._replace(
            verdict=look.text(said), notes=(WITHOUT_PROGRAM if device.kind == "mcu" else WITHOUT, *lines.notes)
        )

    return Report(
        lambda format, look: [sheet(format.audience, look)],
        lambda: {**content(profile, choice), "device": room.to_dict()},
    )


def default_report(profile: Profile) -> Report:
    """The profile as its command shows it without options."""
    return profile_report(profile, Choice())


@checked
def render(
    profile: Profile,
    format: str = "table",
    by: str = "layer",
    depth: int | None = None,
    columns: str | Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    only: Sequence[str] = (),
    fold: bool = False,
    human: bool = False,
    header: bool = True,
    width: int | None = None,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """The profile as text that ends with a line end.

    Args:
        profile: what to write.
        format: a format of text, such as "table", "tree", "markdown", "csv", "json", "latex" or "html".
        by: one line for each "layer", "op", "module" or "dtype".
        depth: how many levels of modules; None for all.
        columns: keys of columns, as a list or with commas between them; None for what suits the format. JSON always
            holds all.
        sort: key of the column to sort by, the largest (and before it the unknown) first; None for the order of
            execution.
        top: how many lines to show, those of the largest count unless ``sort`` says otherwise; the rest is one line.
        only: words that choose layers: an operator, a layer, the path or class of a module, a kind of work such as
            "attention", or a pattern such as "layer3.*"; none choose all. Totals stay those of the model.
        fold: by module, modules that repeat as one line: "22 × LlamaDecoderLayer".
        human: three digits and an SI prefix instead of every digit, where the format is for people.
        header: whether the model and the columns are named above the lines.
        width: cells of the terminal; None when there is none and nothing needs to be shortened.
        color: whether to use the terminal's colours.
        ascii: whether to draw and write with ASCII characters only.

    Raises:
        InputError: the format, the grouping or a column is unknown, or the format is not text.
    """
    choice, look = Choice(by, depth, columns, sort, top, only, fold), Look(human, header, width, color, ascii)
    return as_text(profile_report(profile, choice), format, look)


def content(profile: Profile, choice: Choice) -> Json:
    """``Profile.to_dict()``: all layers in order of execution, including those that a table would hide.

    Of chosen layers, it has those alone, and their sum as "selection"; "totals" are the model's. Grouped, it also holds
    "by" and "groups": the figures of each group under the keys of a layer.
    """
    part = choice.part_of(profile)
    plain = part.to_dict()
    if choice.only:
        whole = profile.to_dict()
        plain = {
            **whole,
            "layers": plain["layers"],
            "selection": {"only": list(choice.only), **_sums(part.sum, profile)},
        }
    if choice.by != "layer":
        plain["by"] = choice.by
        plain["groups"] = [_group(*group, profile, choice.fold) for group in choice.groups_of(part)]
    return plain


def _group(item: Sum, times: int, profile: Profile, fold: bool) -> Json:
    """The name of a group, how often what lies below it comes where modules are folded, and its figures."""
    own = {"name": item.name, "kind": item.kind, "depth": item.depth, **({"times": times} if fold else {})}
    return {**own, **_sums(item, profile)}


def _sums(item: Sum, profile: Profile) -> Json:
    """The figures of layers together; null where all of them are unknown, a lower bound where some are."""

    def figure(key: str) -> Value:
        return cell(COLUMNS[key], item, profile)

    return {
        **{key: figure(key) for key in ("layers", "unknown", "count", "macs", "flops")},
        "ops": None if figure("macs") is None else item.counts.to_dict(),
        **{key: figure(key) for key in ("params", "buffers", "weight_bytes", "activations", "output_bytes")},
        **({key: figure(key) for key in TRAINED} if profile.training is not None else {}),
    }
