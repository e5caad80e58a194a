"""Models that are spread over devices count as the model that was spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not distributed.is_available(), reason="PyTorch was built without torch.distributed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Four devices that are not there: communication does nothing."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        yield init_device_mesh("cpu", (4,))
    finally:
        distributed.destroy_process_group()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))


def check(model: nn.Module, words: str) -> None:
    before = [(name, type(p), p.shape) for name, p in model.named_parameters()]
    hooks = [[*m._forward_pre_hooks.values(), *m._forward_hooks.values()] for m in model.modules()]
    attributes = [sorted(vars(m)) for m in model.modules()]
    for _ in range(2):
        profile = flopwise.profile(model, (2, 64))
        expected = flopwise.profile(network(), (2, 64))
        figures = ("macs", "flops", "params", "weight_bytes", "output_bytes")
        assert [profile.total(f) for f in figures] == [expected.total(f) for f in figures]
        assert profile.exact
        assert [row.node.op for row in profile.rows] == ["Gemm", "Relu", "Gemm"]
        assert any(note.startswith("distributed: ") and words in note for note in profile.notes)
    assert before == [(name, type(p), p.shape) for name, p in model.named_parameters()]
    assert hooks == [[*m._forward_pre_hooks.values(), *m._forward_hooks.values()] for m in model.modules()]
    assert attributes == [sorted(vars(m)) for m in model.modules()]


def test_tensor_parallel(mesh: Any) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    check(model, "spread over 4 devices (each computes its share)")


def test_fully_shard(mesh: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    model = network()
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    check(model, "this rank holds 8,272 of 33,088 elements")


@pytest.mark.parametrize("original", [False, True])
def test_fully_sharded_data_parallel(mesh: Any, original: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(network(), use_orig_params=original, device_id=torch.device("cpu"))
    check(model, "this rank holds 8,272 of 33,088 elements")


def test_a_distributed_tensor_that_the_program_makes(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    class Makes(nn.Module):
        def forward(self, x: Any) -> Any:
            whole = DTensor.from_local(x, mesh, [Shard(0)])
            weight = DTensor.from_local(torch.ones(64, 64), mesh, [Replicate()])
            return (whole @ weight).to_local()

    profile = flopwise.profile(Makes(), (2, 64))
    assert not profile.exact
    assert profile.total("macs") == 4 * 2 * 64 * 64


class Doubled(torch.Tensor):
    """A subclass that computes with a tensor inside, as PyTorch's own do."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [a.inner * 2 if isinstance(a, Doubled) else a for a in args]
        return func(*plain, **(kwargs or {}))


def test_a_subclass_without_a_rule_is_unknown_and_what_follows_is_counted() -> None:
    class Makes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x: Any) -> Any:
            return self.layer(Doubled(self.layer(x)))

    profile = flopwise.profile(Makes(), (2, 64))
    assert not profile.exact
    assert profile.total("macs") == 2 * 2 * 64 * 64
