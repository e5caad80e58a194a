"""The meter on one of several ranks: each counts the batches that it has, of the whole module, eager and sharded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")

from torch import nn  # noqa: E402 - needs torch

import flopwise  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not distributed.is_available(), reason="PyTorch was built without torch.distributed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def mesh(spread: Callable[[nn.Module, Any], nn.Module]) -> Iterator[Any]:
    """Four devices, of which three are not there: communication does nothing; for DDP, which wants some, one alone."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if spread is alike:
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    else:
        distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        yield init_device_mesh("cpu", (distributed.get_world_size(),))
    finally:
        distributed.destroy_process_group()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))


def alike(model: nn.Module, mesh: Any) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def sharded(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model


def flat(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


def divided(model: nn.Module, mesh: Any) -> nn.Module:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


@pytest.mark.parametrize("spread", [alike, sharded, flat, divided])
def test_accumulated_batches_of_one_rank(spread: Callable[[nn.Module, Any], nn.Module], mesh: Any) -> None:
    """Two batches of different sizes make one step, as gradients are accumulated."""
    batches = [torch.rand(size, 16) for size in (3, 5)]
    devices = 4 if spread is divided else 1
    expected = flopwise.Meter(network(), batches[0], keep=False, device="H100 SXM")
    cost = expected.step(batches[0]) + expected.step(batches[1])
    model = spread(network(), mesh)
    meter = flopwise.Meter(model, batches[0], keep=False, device="H100 SXM", devices=devices)
    for _ in range(2):
        with meter:
            for batch in batches:
                model(batch).sum().backward()
        assert meter.cost is not None
        assert (meter.cost.flops, meter.cost.macs, meter.cost.samples) == (cost.flops, cost.macs, 8)
        assert meter.cost.batches == 2
    alone = expected.rates(0.5, cost).mfu
    assert alone
    assert meter.rates(0.5).mfu == pytest.approx(alone / devices)


def test_a_stage_of_a_pipeline_counts_its_own_part() -> None:
    """A stage is a module of its own; those of all stages add up to the model."""
    model, batch = network(), torch.rand(4, 16)
    stages = [model[:2], model[2:]]
    costs = []
    for stage in stages:
        costs.append(flopwise.Meter(stage, batch, keep=False).step(batch))
        batch = stage(batch).detach().requires_grad_()
    whole = flopwise.Meter(model, torch.rand(4, 16), keep=False).step(torch.rand(4, 16))
    assert sum(cost.flops for cost in costs) == whole.flops


_RANK = """
import sys, torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
import flopwise
from flopwise.analyses.meter import form
form.MOST_FORMULAS = form.MOST_EXAMPLES = 0  # profiles alone: the test is of what is counted
rank, path = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", store=distributed.FileStore(path, 2), rank=rank, world_size=2)
mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
def sharded():
    model = network()
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model
def divided():
    return parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
def alike():
    return nn.parallel.DistributedDataParallel(network())
for spread in (sharded, divided, alike):
    model = spread()
    meter = flopwise.Meter(model, keep=False, devices=2 if spread is divided else 1)
    size = 4 if spread is divided else 3 + rank
    with meter:
        model(torch.ones(size, 16)).sum().backward()
    print(spread.__name__, meter.cost.flops, meter.cost.samples)
    assert all(p.grad is not None for p in model.parameters())
first = network()
if rank == 0:
    stage, batch = first[:2], torch.ones(4, 16)
else:
    stage, batch = first[2:], torch.empty(4, 32, requires_grad=True)
    distributed.recv(batch.data, 0)
meter = flopwise.Meter(stage, keep=False)
with meter:
    result = stage(batch)
    if rank == 0:
        distributed.send(result.detach(), 1)
        gradient = torch.empty(4, 32)
        distributed.recv(gradient, 1)
        result.backward(gradient)
    else:
        result.sum().backward()
        distributed.send(batch.grad, 0)
print("stage", meter.cost.flops, meter.cost.samples)
distributed.destroy_process_group()
"""


def test_two_processes_that_communicate(tmp_path: Path) -> None:
    """FSDP, tensor parallelism, DDP and a pipeline of two real ranks: each counts its own batch or stage."""
    if not distributed.is_gloo_available():
        pytest.skip("PyTorch was built without gloo")
    command = [sys.executable, "-W", "ignore", "-c", _RANK]
    processes = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    lines = [process.communicate(timeout=300)[0].split("\n") for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    whole = flopwise.Meter(network(), torch.ones(4, 16), keep=False)
    three, four = (whole.step(torch.ones(size, 16)).flops for size in (3, 4))
    stages = [int(line[3].split()[1]) for line in lines]
    assert sum(stages) == four
    for rank, own in enumerate((three, four)):
        expected = [
            f"sharded {own} {3 + rank}",
            f"divided {four} 4",
            f"alike {own} {3 + rank}",
            f"stage {stages[rank]} 4",
        ]
        assert lines[rank][:4] == expected
