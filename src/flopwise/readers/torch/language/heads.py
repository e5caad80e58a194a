"""The heads of a model that predict a token more (MTP), which transformers leaves out, as a draft model.

A head norms the embedding of the last token and the model's own result for the position before it, projects both into
one, and goes through a layer like the model's last; embedding and scores are those of the model. Source: DeepSeek-V3,
https://arxiv.org/abs/2412.19437, section 2.2. GLM-4.5 and others that name ``num_nextn_predict_layers`` have the same.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from flopwise.errors import InputError
from flopwise.readers.torch.kinds import Model
from flopwise.readers.torch.language.layers import list_of_layers, shortened
from flopwise.readers.torch.language.model import built


class _Joined(nn.Module):
    """The entry of a head: what it is given in place of an embedding."""

    def __init__(self, embedding: nn.Module, norm: nn.Module, width: int) -> None:
        super().__init__()
        self.embedding, self.enorm, self.hnorm = embedding, copy.deepcopy(norm), copy.deepcopy(norm)
        self.eh_proj = nn.Linear(2 * width, width, bias=False, device="meta", dtype=next(norm.parameters()).dtype)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The embedding and a result of the same size, which is stood in for by the embedding, in one."""
        embedded = self.embedding(tokens)
        joined: torch.Tensor = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(embedded)), -1))
        return joined


def predicting_head(model: Model) -> tuple[nn.Module, int]:
    """A head of a model of transformers as a model of one layer, and how many such heads the model has.

    Raises:
        InputError: its configuration names none, or its layers are not in one list.
    """
    config, name = model.config.get_text_config(decoder=True), type(model).__name__
    count = getattr(config, "num_nextn_predict_layers", None) or 0
    found = list_of_layers(model)
    if not count or found is None:
        raise InputError(
            f"draft mtp: {name} has no heads that predict a token more (num_nextn_predict_layers of its configuration)"
        )
    path, layers = found
    head: Model = built(shortened(model.config, len(layers), len(layers)), name, model.dtype)
    own = head.get_submodule(path)
    last, norms = own[-1], [part for part in own[-1].children() if "norm" in type(part).__name__.lower()]
    owner = head.get_submodule(path.rpartition(".")[0])
    setattr(owner, path.rpartition(".")[2], nn.ModuleList([last]))
    for part in last.modules():
        if hasattr(part, "layer_idx"):
            part.layer_idx = 0
    for own_config in {id(part.config): part.config for part in head.modules() if hasattr(part, "config")}.values():
        own_config.num_hidden_layers = 1
    head.set_input_embeddings(_Joined(head.get_input_embeddings(), norms[0], config.hidden_size))
    return head.eval(), count


def shared_tensors(head: Model) -> frozenset[str]:
    """The names of a head's tensors that it shares with its model: embedding and scores."""
    scores = head.get_output_embeddings()
    shared = {id(head.get_input_embeddings().embedding.weight), *([] if scores is None else [id(scores.weight)])}
    return frozenset(name for name, tensor in head.named_parameters() if id(tensor) in shared)
