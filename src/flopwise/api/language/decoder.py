"""A decoder from its configuration alone as a program that is profiled step by step, without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction

from flopwise.analyses.llm.program import Call
from flopwise.api.language.program import KV_DTYPES
from flopwise.api.profile import profile
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile
from flopwise.readers.decoder.config import NEEDS, decoder_of
from flopwise.readers.decoder.graph import decoder_graph
from flopwise.readers.decoder.read import installed
from flopwise.readers.torch.language.config import HUB
from flopwise.readers.torch.language.format import LANGUAGE

#: The division of weights by tensor parallelism, as ``readers/torch/language/plan`` has it for these families.
_PLAN = {
    "model.embed_tokens": "embedding_rowwise",
    **{f"model.layers.*.self_attn.{name}_proj": "colwise" for name in "qkv"},
    "model.layers.*.self_attn.o_proj": "rowwise",
    **{f"model.layers.*.mlp.{name}_proj": "colwise" for name in ("gate", "up")},
    "model.layers.*.mlp.down_proj": "rowwise",
    "lm_head": "colwise_gather_output",
}


class DecoderProgram:
    """A decoder of one of the families of ``readers/decoder``; see ``analyses/llm/program.Program``."""

    def __init__(self, model: str | os.PathLike[str], dtype: str | None, kv_dtype: str | None, generate: int) -> None:
        self._decoder = decoder_of(model, dtype)
        width, state_type = KV_DTYPES[kv_dtype] if kv_dtype else (None, None)
        self._kv: Fraction | None = width
        self.state_type: str | None = state_type
        self.name = f"{self._decoder.family.title}ForCausalLM"
        self.source = os.fsdecode(model)
        self.dtype = self._decoder.dtype
        self.widths: Mapping[str, Fraction] = {}
        self.types: Mapping[str, str] = {}
        self.longest = self._decoder.longest
        self.encodes = False
        self.encoder_length: int | None = None
        self.predicts = True
        self.keeps_state = generate > 0
        self.notes: tuple[str, ...] = self._decoder.notes

    def profile(self, call: Call, batch: int) -> Profile:
        """The profile of a call."""
        return profile(decoder_graph(self._decoder._replace(notes=()), batch, call.new, call.past))

    def plan(self) -> Mapping[str, str]:
        """The division of its weights by tensor parallelism."""
        return _PLAN

    def state(self, call: Call, batch: int) -> Mapping[str, int]:
        """Bytes of the state before a call, by tensor."""
        state = [t for t in decoder_graph(self._decoder, batch, 1, call.past).inputs if t.kind == "state"]
        return {t.name: t.nbytes if self._kv is None else round(t.numel * self._kv) for t in state}

    def windows(self, call: Call, batch: int) -> Sequence[int]:
        """The lengths of the windows that the state before a call keeps: there are none."""
        return ()


def without_pytorch(model: object) -> bool:
    """True for a configuration in a file where PyTorch or transformers is missing."""
    if not isinstance(model, (str, os.PathLike)) or os.fsdecode(model).startswith(HUB) or not LANGUAGE.match(model):
        return False
    return not installed()


def refuse_settings(model: object, **settings: object) -> None:
    """Raise InputError where a setting of a request asks for more than the configuration says."""
    if asked := next((name for name, value in settings.items() if value not in (None, False)), None):
        raise InputError(f"{os.fsdecode(str(model))}: {asked} {NEEDS}")
