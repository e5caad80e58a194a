"""Language models as formats: a configuration, from which transformers builds the model.

What the table of architectures has is read from the configuration alone (``formats/language``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.formats.options import TorchOptions
from flopwise.formats.torch.kinds import Model

if TYPE_CHECKING:
    from flopwise.formats.format import Format
    from flopwise.graph import Graph


def read_gguf(
    tensors: Format, model: Model, inputs: object, dims: object, batch_size: Any, progress: Any, options: TorchOptions
) -> Graph:
    """The model of the architecture that the header names; of one that the table lacks, a row for each tensor.

    Args:
        tensors: reads such files as tensors alone.
        model: the path.
        inputs: as for ``read_model``, and the others too.
        dims: as there.
        batch_size: as there.
        progress: as there.
        options: as there.

    Raises:
        ModelError: the file cannot be read, or sizes are asked for of a model that the table lacks.
    """
    from flopwise.formats.language.read import read_configuration
    from flopwise.formats.torch.language.config import UnknownArchitectureError, unknown_gguf

    plain = replace(TorchOptions(), mode=options.mode, program=options.program)
    requested = inputs is not None or dims or batch_size is not None or options != plain
    name = os.fsdecode(model)
    if not by_table(model, inputs, dims, replace(options, program=False)):
        error = unknown_gguf(name)
        if requested or not isinstance(error, UnknownArchitectureError):
            raise error
        listed = tensors.read(model, None, None, None, progress, options)
        return replace(listed, warnings=(str(error), *listed.warnings))
    graph = read_configuration(model, inputs, batch_size, options)
    with tensors.tensors(model, None, None, None, progress, options) as stored:
        nbytes = sum(tensor.nbytes for tensor in stored.tensors)
    note = (
        f"weights are counted in the type that they are multiplied in; {os.path.basename(name)} stores them in "
        f"{nbytes:,} bytes ('flopwise llm' counts those)"
    )
    return replace(graph, warnings=(*graph.warnings, note, *([_ESTIMATE] if options.program else [])))


def read_configured(
    model: Model, inputs: object, dims: Any, batch_size: int | None, progress: Any, options: TorchOptions
) -> Graph:
    """The model of a configuration: by the table of architectures, else by transformers; as ``read_model``."""
    from flopwise.formats.language.read import defaults_of, read_configuration
    from flopwise.formats.torch.language.config import UnknownArchitectureError, require

    if by_table(model, inputs, dims, options):
        graph = read_configuration(model, inputs, batch_size, options)
        return replace(graph, warnings=(*graph.warnings, _ESTIMATE)) if options.program else graph
    try:
        require(model, options.trust_code)
        from flopwise.formats.torch.model import read_model

        graph = read_model(model, inputs, dims, batch_size, progress, options)
        return replace(graph, warnings=(*graph.warnings, *defaults_of(model)))
    except UnknownArchitectureError:  # of a type that this release of transformers does not know
        if options.program and by_table(model, inputs, dims, replace(options, program=False)):
            graph = read_configuration(model, inputs, batch_size, options)
            return replace(graph, warnings=(*graph.warnings, _ESTIMATE))
        raise


def by_table(model: object, inputs: object, dims: object, options: TorchOptions) -> bool:
    """True where a configuration is read by the table of architectures; what asks for gradients, arguments or code of
    its own is a matter of transformers' program."""
    from flopwise.formats.language.read import can_learn, in_table, sizes_of, transformers_installed
    from flopwise.formats.language.source import content_of

    named = set(inputs) if isinstance(inputs, Mapping) else set()
    if options.arguments or options.trust_code or options.attention or dims or not named <= _TABLE:
        return False
    if options.program and transformers_installed():
        return False
    if not in_table(model):
        return False
    learns = options.grad or options.mode == "train" or options.lora
    return not learns or can_learn(sizes_of(os.fsdecode(model), content_of(model)))  # type: ignore[arg-type] # a path


#: The note on a graph in place of the program that was asked for.
_ESTIMATE = (
    "a tool that counts programs looks at that of transformers, and the transformers here, if any, has none of this "
    "model: its figure for the configuration is an estimate (pip install 'flopwise[llm]')"
)

#: Inputs that a graph by the table has, and what says that there is no cache.
_TABLE = {"input_ids", "input_features", "decoder_input_ids", "labels", "use_cache"}
