"""Large models without the messages of their nodes and stored tensors, as long as nobody asks for them."""

from __future__ import annotations

import onnx

from flopwise.readers.onnx.file.skeleton import Skeleton
from flopwise.readers.onnx.file.stripped import MARK
from flopwise.readers.onnx.listing import Listed, complete, listed
from flopwise.readers.onnx.messages import Messages, parsed
from flopwise.readers.onnx.normalize.spelling import TYPED
from flopwise.readers.onnx.types import ASKED, CONTROL_FLOW

#: Operators whose nodes are looked at, or changed, one by one.
_LOOKED_AT: frozenset[str] = CONTROL_FLOW | ASKED | {"STFT"}


def outlined(skeleton: Skeleton) -> tuple[onnx.ModelProto, list[Listed] | None]:
    """A model without its weights, and the nodes of its graph if they have been listed.

    A large model is without the messages of its nodes and stored tensors where they may never be needed; see
    ``flopwise.readers.onnx.listing.complete``.

    Raises:
        ModelError: it is damaged.
    """
    proto = parsed(skeleton.head)
    weightless = skeleton.mentions(MARK)
    twins = skeleton.tensors.number > len(skeleton.initializers)
    elsewhere = any(place.external for place in skeleton.initializers.values())
    if proto.functions or proto.ir_version < TYPED or weightless or twins or elsewhere:
        return parsed(skeleton.model), None
    nodes = listed(Messages(proto.graph, skeleton), skeleton.initializers)
    if any(node.domain for node in nodes) or not _LOOKED_AT.isdisjoint({node.op for node in nodes}):
        complete(nodes)
    return proto, nodes
