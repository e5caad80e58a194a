"""Quantisations that a configuration states module by module: compressed-tensors' groups, torchao's settings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from flopwise.errors import InputError

#: The class of modules that both methods mean by default.
_LINEAR = "Linear"

#: What transformers keeps in a stack of experts -> what published files call the parts in each expert.
_EXPERTS = {"gate_up_proj": ("gate_proj", "up_proj", "w1", "w3"), "down_proj": ("down_proj", "w2")}


class Scheme(NamedTuple):
    """Storage of a weight: bits of an element, and how many elements share a scale (-1: a row)."""

    bits: int
    group: int
    #: Whether elements are floating point.
    floating: bool = False


#: Seconds that the patterns of a file may take, which somebody may have made to take for ever.
PATIENCE = 2.0


class Schemes:
    """Schemes by target: a module's path, ``re:`` and a pattern that its path matches, or its class."""

    def __init__(self, targets: Mapping[str, Scheme | None]) -> None:
        self.targets = targets
        self._patience = PATIENCE

    def of(self, parameter: str) -> Scheme | None:
        """The scheme of a weight; None where it stays as it is. A path counts before a pattern, this before a class."""
        module, _, name = parameter.rpartition(".")
        paths = [module, *(f"{module}.0.{part}" for part in _EXPERTS.get(name, ()))] if name != "weight" else [module]
        for path in paths:
            if path in self.targets:
                return self.targets[path]
        for target, scheme in self.targets.items():
            if target.startswith("re:") and any(self._matched(target[3:], path) for path in paths):
                return scheme
        return self.targets.get(_LINEAR)

    def _matched(self, pattern: str, path: str) -> bool:
        """True if a pattern matches a path from its start; all patterns together may take ``PATIENCE`` seconds."""
        import regex  # which transformers brings, and which can stop

        began = time.monotonic()
        try:
            return regex.match(pattern, path, timeout=max(self._patience, 0.01)) is not None
        except regex.error as error:
            raise InputError(f"quantization_config: {pattern[:100]!r} is not a regular expression ({error})") from None
        except TimeoutError:
            raise InputError(f"quantization_config: the pattern {pattern[:100]!r} takes too long") from None
        finally:
            self._patience -= time.monotonic() - began


def schemes_of(method: str, settings: Mapping[str, object]) -> Schemes | None:
    """The schemes that settings state; None where they are not of a form that names modules.

    Raises:
        InputError: a number of bits or a group is none that there is.
    """
    groups, kind = settings.get("config_groups"), settings.get("quant_type")
    if isinstance(groups, Mapping):
        return Schemes(dict(_of_groups(groups)))
    if method == "torchao" and isinstance(kind, Mapping):
        return Schemes(dict(_of_torchao(kind.get("default", kind))))
    return None


def _of_groups(groups: Mapping[str, object]) -> Iterator[tuple[str, Scheme | None]]:
    """Each target in ``config_groups`` of compressed-tensors with its scheme; the first group that names it counts.

    https://github.com/vllm-project/compressed-tensors, ``QuantizationConfig``
    """
    seen: set[str] = set()
    for name, group in groups.items():
        if not isinstance(group, Mapping):
            raise InputError(f"quantization_config: {name} is {group!r}; an object of settings is expected")
        weights, targets = group.get("weights"), group.get("targets") or [_LINEAR]
        for target in targets if isinstance(targets, list) else [targets]:
            if target not in seen:
                seen.add(target)
                yield str(target), _scheme(weights, "num_bits", 8) if isinstance(weights, Mapping) else None


def _scheme(settings: Mapping[str, object], key: str, default: int) -> Scheme:
    bits, group = settings.get(key, default), settings.get("group_size")
    if type(bits) is not int or not 1 <= bits <= 16:
        raise InputError(f"quantization_config: {key} is {bits!r}; expected: 1 to 16")
    if group is not None and (type(group) is not int or (group < 1 and group != -1)):
        raise InputError(f"quantization_config: group_size is {group!r}; expected: -1 or a number of at least 1")
    return Scheme(bits, -1 if group is None else group, settings.get("type") == "float")


def _of_torchao(config: object) -> Iterator[tuple[str, Scheme | None]]:
    """Targets and schemes that ``torchao.core.config.config_to_dict`` writes: for all linear layers, or by path.

    Raises:
        InputError: a configuration does not say how many bits a weight has.
    """
    data = config.get("_data") if isinstance(config, Mapping) else None
    data = data if isinstance(data, Mapping) else {}
    by_path = data.get("module_fqn_to_config") or data.get("fqn_to_config")
    if isinstance(by_path, Mapping):
        for path, own in by_path.items():
            inner = dict(_of_torchao(own)) if own is not None else {_LINEAR: None}
            yield (_LINEAR if path == "_default" else path), inner[_LINEAR]
        return
    name = str(config.get("_type", "")) if isinstance(config, Mapping) else str(config)
    stored = re.search(r"(?:Int|Float|FP)(\d+)Weight|FP(\d)", name) or re.search(
        r"(?:int|float)(\d+)", str(data.get("weight_dtype") or data.get("dtype") or "")
    )
    if stored is None:
        raise InputError(f"quantization_config: quant_type {name[:60]!r} does not say how many bits a weight has")
    bits = next(int(part) for part in stored.groups() if part)
    kind = "float" if stored[0].lower().startswith(("float", "fp")) else "int"
    yield _LINEAR, _scheme({**data, "bits": bits, "type": kind}, "bits", bits)
