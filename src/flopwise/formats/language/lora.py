"""Low-rank adapters by their description, and the layers that they lie beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from flopwise.errors import InputError, counted

_EXAMPLE = "write r=16,targets=q_proj,v_proj"


@dataclass(frozen=True)
class Lora:
    """Adapters of one rank."""

    rank: int
    #: Names of the layers that get one, or ends of their paths; empty for every linear layer but the vocabulary's.
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"LoRA of rank {self.rank} on {', '.join(self.targets) or 'every linear layer'}"


def lora_of(text: str) -> Lora:
    """Adapters by their description, such as ``r=16,targets=q_proj,v_proj``; without targets every linear layer.

    Raises:
        InputError: a key is unknown, or the rank is missing or no number.
    """
    settings: dict[str, list[str]] = {}
    key = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        key = name.strip() if equals else key
        if key not in ("r", "targets"):
            raise InputError(f"lora {text!r}: {key or part!r} is no setting of it; {_EXAMPLE}")
        settings.setdefault(key, []).append((value if equals else part).strip())
    (rank,) = settings["r"] if len(settings.get("r", ())) == 1 else ("",)
    if not rank.isdecimal() or int(rank) < 1:
        raise InputError(f"lora {text!r}: its rank is a number of at least 1; {_EXAMPLE}")
    targets = tuple(settings.get("targets", ()))
    if not all(targets):
        raise InputError(f"lora {text!r}: a target is empty; {_EXAMPLE}")
    return Lora(int(rank), () if targets == ("all-linear",) else targets)


def layers_of(lora: Lora, name: str, linear: Sequence[str], scores: Sequence[str]) -> list[str]:
    """The paths of the layers that get an adapter.

    Args:
        lora: the adapters.
        name: what the model is called.
        linear: the paths of its linear layers.
        scores: those of its output layer, which gets none unless it is named.

    Raises:
        InputError: a target is none of them.
    """
    if not lora.targets:
        if not (others := [path for path in linear if path not in scores]):
            raise InputError(f"lora: {name} has no linear layer that an adapter could lie beside")
        return others
    for target in lora.targets:
        if not any(_ends_in(path, target) for path in linear):
            names = sorted({path.rpartition(".")[2] for path in linear})
            near = get_close_matches(target, names, n=3) or names[:12]
            raise InputError(f"lora: {name} has no linear layer {target!r}; it has {', '.join(near)}")
    return [path for path in linear if any(_ends_in(path, target) for target in lora.targets)]


def beside(layers: Sequence[object]) -> str:
    """A note on the adapters beside layers."""
    return f"adapters as peft adds them, beside {counted(len(layers), 'layer')}; the base is frozen"


def _ends_in(path: str, target: str) -> bool:
    return path == target or path.endswith(f".{target}")
