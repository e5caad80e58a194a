"""Nothing of the caller's changes: threads, arguments, containers, random state."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402


class Block(nn.Module):
    """Layers whose cost depends on the mode that a concurrent run could have left."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = self.drop(layer(x)).relu()
        return self.norm(x)


def test_threads_that_profile_one_module_take_turns() -> None:
    model = Block()
    model.norm.eval()
    modes = [m.training for m in model.modules()]
    expected = {mode: _figures(flopwise.profile(model, (4, 16), mode=mode)) for mode in ("eval", "train", "as-is")}
    jobs = [("eval", "train", "as-is")[i % 3] for i in range(160)]
    with ThreadPoolExecutor(8) as pool:
        profiles = list(pool.map(lambda mode: flopwise.profile(model, (4, 16), mode=mode), jobs))
    assert [m.training for m in model.modules()] == modes
    assert [_figures(p) for p in profiles] == [expected[mode] for mode in jobs]


def _figures(profile: flopwise.Profile) -> tuple[Any, ...]:
    return profile.total("flops"), profile.total("params"), profile.exact, len(profile.rows), profile.notes


class Cache:
    """Keys of a language model, which every call makes longer."""

    def __init__(self, length: int) -> None:
        self.keys: list[Any] = [torch.zeros(1, length, 8) for _ in range(2)]
        self.seen = {"steps": 0, "last": [None]}


class Decoder(nn.Module):
    def __init__(self, asks: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.asks = asks

    def forward(self, x: Any, cache: Any) -> Any:
        if self.asks and x.sum() > 1e9:
            return x
        for position, layer in enumerate(self.layers):
            cache.keys[position] = torch.cat([cache.keys[position], layer(x)], 1)
            cache.keys[position][:, 0] += 1
            x = x @ cache.keys[position].mT @ cache.keys[position]
        cache.seen["steps"] += 1
        cache.seen["last"].append(x)
        cache.more = x
        return x


@pytest.mark.parametrize("asks", [False, True], ids=["meta", "real"])
def test_arguments_that_a_program_changes_come_back_as_they_were(asks: bool) -> None:
    cache, x = Cache(31), torch.zeros(1, 1, 8)
    keys, model = [*cache.keys], Decoder(asks)
    expected = 2 * (8 * 8 + 2 * 32 * 8)
    for _ in range(2):
        profile = flopwise.profile(model, {"x": x, "cache": cache})
        assert profile.total("macs") == expected
        assert [i.name for i in profile.graph.inputs] == ["x", "cache.keys.0", "cache.keys.1"]
    assert all(a is b for a, b in zip(cache.keys, keys, strict=True))
    assert not any(k.any() for k in keys)
    assert cache.seen == {"steps": 0, "last": [None]}
    assert not hasattr(cache, "more")


def test_what_compiles_is_neither_asked_for_nor_kept_away() -> None:
    """Functions of PyTorch's that ask TorchDynamo to leave them alone ask it again once a model is read."""
    before = dict(vars(sys.modules["torch._compile"]))
    flopwise.profile(Block().eval(), (2, 16))
    assert vars(sys.modules["torch._compile"]) == before


def test_what_the_first_checkpoint_imports_is_not_counted() -> None:
    """It asks TorchDynamo to leave it alone, which computes something while it is imported."""
    code = """
import flopwise, torch
from torch.utils.checkpoint import checkpoint

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        return checkpoint(self.layer, x, use_reentrant=False)

profile = flopwise.profile(Net(), (2, 4), train=True)
assert profile.exact and profile.total("flops") == 2 * 32 + 8
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_reading_waits_for_what_compiles() -> None:
    """Of seconds that a process takes to import PyTorch and to read a network, TorchDynamo would be half."""
    code = """
import sys
import flopwise, torch
from torch.nn import *

parts = Conv2d(3, 4, 3), BatchNorm2d(4), ReLU(), GELU(), SiLU(), Flatten(), Linear(144, 5), LayerNorm(5), Softmax(-1)
profile = flopwise.profile(Sequential(*parts).eval(), (1, 3, 8, 8))
assert profile.total("macs") == 36 * 4 * 27 + 144 * 5
assert not any(name.startswith("torch._dynamo") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_made_of_a_cache_alone_is_work() -> None:
    class Reads(nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            return x + cache.keys[0] @ cache.keys[1].mT

    profile = flopwise.profile(Reads(), {"x": (1, 31, 31), "cache": Cache(31)})
    assert profile.total("macs") == 31 * 31 * 8


@pytest.mark.parametrize("length", [31])
def test_a_decode_step_with_a_cache_of_transformers_costs_the_same_each_time(length: int) -> None:
    from tests import torch_vision  # noqa: F401 - declares what transformers expects of torchvision

    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    cache = transformers.DynamicCache(config=config)
    with torch.no_grad():
        model(torch.zeros(1, length, dtype=torch.int64), past_key_values=cache)
    inputs = {"input_ids": torch.zeros(1, 1, dtype=torch.int64), "past_key_values": cache}
    first, second = (flopwise.profile(model, inputs).total("macs") for _ in range(2))
    linear = 2 * (4 * 64 * 64 + 3 * 64 * 128) + 64 * 100
    assert first == second == linear + 2 * 2 * (length + 1) * 64
    assert cache.get_seq_length() == length
    assert not any(t.is_meta for layer in cache.layers for t in (layer.keys, layer.values))


class Remembers(nn.Module):
    """Keeps what it saw in containers, draws random numbers, and changes the default element type."""

    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.history: list[Any] = [1]
        self.table = {"deep": [{"x": 0}]}
        self.names = {"a"}
        self.state = torch.zeros(3)
        self.holder = Cache(2)
        self.layer = nn.Linear(3, 3)
        self.asks = asks

    def forward(self, x: Any) -> Any:
        if self.asks:
            self.history.append(float(x.sum()))
        self.history.append(x)
        self.table["deep"][0]["x"] = x
        self.table["deep"].append({})
        self.names.add("b")
        self.state += 1
        self.holder.keys[0] = x
        self.holder.extra = 1
        with torch.no_grad():
            self.layer.weight.mul_(0)
            self.layer.bias.data.fill_(7)
        random.random()
        numpy.random.rand()
        torch.set_default_dtype(torch.float64)
        return self.layer(x + torch.rand(3, dtype=x.dtype))


@pytest.mark.parametrize("asks", [False, True], ids=["meta", "real"])
def test_containers_tensors_and_random_state_are_as_they_were(asks: bool) -> None:
    model = Remembers(asks)
    keys = model.holder.keys[0]
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    python, state, generator = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    profile = flopwise.profile(model, (2, 3))
    assert any("real tensors" in note for note in profile.notes) is asks
    assert model.history == [1]
    assert model.table == {"deep": [{"x": 0}]}
    assert model.names == {"a"}
    assert not model.state.any()
    assert model.holder.keys[0] is keys
    assert not hasattr(model.holder, "extra")
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())
    assert random.getstate() == python
    assert all(numpy.array_equal(a, b) for a, b in zip(numpy.random.get_state(), state, strict=True))
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.get_default_dtype() is torch.float32
