"""What PyTorch's exporter on torch.export noted about the tensors of a model: which are parameters, and which not."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import onnx

from flopwise.graph import Kind

#: On a value: whether it is a parameter, a buffer, a constant or an input.
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"

#: On a value: the tensors from which the exporter computed it.
FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"

#: On the graph: the kinds of all tensors of the module, those included that the file no longer holds.
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"

_KINDS: dict[str, Kind] = {"PARAMETER": "weight", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}
_QUOTED = re.compile(r"'([^']+)'")
_SIGNED = re.compile(r"^\w+: (\w+) target='([^']+)'", re.MULTILINE)


class Notes(NamedTuple):
    """The exporter's notes; empty for a model that another program made."""

    #: Name of a tensor of the module -> PARAMETER, BUFFER or CONSTANT_TENSOR.
    kinds: Mapping[str, str]
    #: Name of a tensor computed at export -> the tensors it was computed from.
    origins: Mapping[str, tuple[str, ...]]
    #: Whether ``kinds`` is complete.
    signed: bool

    def kind(self, name: str, stored: Container[str]) -> Kind | None:
        """What a tensor is according to the exporter; None when the exporter does not say.

        What was computed from a parameter that the file still holds is a copy in another form, and counts there; from
        one that the file no longer holds, it is that parameter now; from anything else, it is a constant table.

        Args:
            name: a stored tensor.
            stored: the names of all stored tensors.
        """
        if name in self.origins:
            parameters = [o for o in self.origins[name] if self._is_parameter(o)]
            return "weight" if parameters and not any(o in stored for o in parameters) else "constant"
        return _KINDS.get(self.kinds.get(name, ""))

    def _is_parameter(self, name: str) -> bool:
        """Without the signature, a dotted name is taken for a parameter's: what the exporter names has no dots."""
        return self.kinds.get(name) == "PARAMETER" or (not self.signed and name not in self.kinds and "." in name)


def notes(graph: onnx.GraphProto) -> Notes:
    """The exporter's notes on a graph whose values still have theirs."""
    signature = next((str(e.value) for e in graph.metadata_props if e.key == SIGNATURE), "")
    kinds = {name: kind for kind, name in _SIGNED.findall(signature)}
    origins: dict[str, tuple[str, ...]] = {}
    for name, key, value in _entries(graph.value_info):
        if key == KIND:
            kinds[name] = value
        elif key == FOLDED_FROM:
            origins[name] = tuple(_QUOTED.findall(value))
    return Notes(kinds, origins, bool(signature))


def _entries(values: Iterable[onnx.ValueInfoProto]) -> Iterable[tuple[str, str, str]]:
    return ((v.name, e.key, str(e.value)) for v in values for e in v.metadata_props)
