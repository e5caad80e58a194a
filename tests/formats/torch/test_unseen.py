"""Work that leaves the watched program is unknown: never a constant, never folded."""

from __future__ import annotations

import ctypes
import multiprocessing.pool
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.formats.torch.record import calls  # noqa: E402


class Through(nn.Module):
    """Two products with something between them that PyTorch does not see."""

    def __init__(self, between: Callable[[Any], Any], first: bool = False) -> None:
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.between = between
        self.first = first

    def forward(self, x: Any) -> Any:
        return self.b(self.between(x if self.first else self.a(x)))


def by_numpy(x: Any) -> Any:
    return torch.from_numpy(x.detach().numpy() * 2)


def by_array(x: Any) -> Any:
    return torch.as_tensor(numpy.tanh(numpy.asarray(x.detach())))


def by_memory(x: Any) -> Any:
    values = (ctypes.c_float * x.numel()).from_address(x.contiguous().data_ptr())
    return torch.frombuffer(bytearray(bytes(values)), dtype=torch.float32).reshape(x.shape)


def by_numbers(x: Any) -> Any:
    return torch.tensor(x.tolist())


def by_item(x: Any) -> Any:
    return torch.tensor([[float(v) for v in row] for row in x])


def by_capsule(x: Any) -> Any:
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x.detach().clone()))


WAYS = [by_numpy, by_array, by_numbers, by_item]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("first", [False, True], ids=["after a product", "first"])
@pytest.mark.parametrize("given", [(1, 16), torch.rand(1, 16)], ids=["shape", "tensor"])
def test_what_leaves_the_program_and_comes_back_is_unknown(way: Any, first: bool, given: Any) -> None:
    profile = flopwise.profile(Through(way, first), (given,) if isinstance(given, torch.Tensor) else given)
    assert profile.total("macs") == 256 * (1 if first else 2)
    assert not profile.exact
    assert profile.unknown == {"torch::Unseen": 1}
    assert any("appeared" in note and "test_unseen.py:" in note for note in profile.notes)


def test_memory_that_is_read_behind_pytorch() -> None:
    profile = flopwise.profile(Through(by_memory, True), (torch.rand(1, 16),))
    assert profile.total("macs") == 256
    assert not profile.exact


def test_a_table_that_the_program_held_before_is_a_constant() -> None:
    table = torch.from_numpy(numpy.ones((16, 16), dtype=numpy.float32))

    class Holds(nn.Module):
        held = (table,)

        def forward(self, x: Any) -> Any:
            return x @ (table @ self.held[0])

    profile = flopwise.profile(Holds(), (1, 16), fold=True)
    assert profile.exact
    assert profile.total("macs") == 256
    assert flopwise.profile(Holds(), (1, 16)).total("macs") == 256 + 16**3


def test_constants_that_are_made_of_numbers_stay_constants() -> None:
    class Makes(nn.Module):
        def forward(self, x: Any, lengths: Any) -> Any:
            sizes = lengths.tolist()
            scale = torch.tensor([1.0, 2.0]) @ torch.tensor([[0.5] * sizes[0]] * 2)
            return x * scale

    profile = flopwise.profile(Makes(), {"x": (1, 16), "lengths": torch.tensor([16])}, fold=True)
    assert profile.exact
    assert profile.total("macs") == 0


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


class Threads(nn.Module):
    def __init__(self, run: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.run = run

    def forward(self, x: Any) -> Any:
        a = self.layers[0](x)
        b = self.run(lambda: self.layers[1](a))
        return self.layers[2](b)


def test_threads_that_the_program_starts_are_followed() -> None:
    profile = flopwise.profile(Threads(in_thread), (1, 16))
    assert (profile.total("macs"), profile.exact) == (768, True)
    assert [row.name for row in profile.rows] == ["layers.0", "layers.1", "layers.2"]


def _mapped(function: Callable[[], Any]) -> Any:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return sum(pool.map(lambda _: function(), range(2)))


def _starmapped(function: Callable[[], Any]) -> Any:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return sum(pool.starmap(lambda a, b: function(), [(1, 2), (3, 4)]))


def _one_by_one(function: Callable[[], Any]) -> Any:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return sum(pool.imap_unordered(lambda _: function(), range(2)))


def _applied(function: Callable[[], Any]) -> Any:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return pool.apply(function) + pool.apply_async(function).get()


@pytest.mark.parametrize("run", [_mapped, _starmapped, _one_by_one, _applied], ids=lambda run: run.__name__)
def test_the_older_pools_are_followed_without_waiting_for_their_own_threads(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[Any] = []
    monkeypatch.setattr(calls, "_await", lambda thread, done: waits.append(thread))
    profile = flopwise.profile(Threads(run), (1, 16))
    assert (profile.total("macs"), profile.exact) == (1024, True)
    assert [row.name for row in profile.rows if row.node.op == "Gemm"] == [
        "layers.0",
        "layers.1",
        "layers.1:2",
        "layers.2",
    ]
    assert not waits
    assert not {"apply_async", "_guarded_task_generation"} & vars(multiprocessing.pool.ThreadPool).keys()


def test_a_thread_that_waits_for_the_program_is_let_be_after_two_looks() -> None:
    jobs: queue.Queue[Any] = queue.Queue()
    looks: list[float] = []

    class Done(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            looks.append(timeout or 0)
            return super().wait(timeout)

    thread = threading.Thread(target=jobs.get, daemon=True)
    thread.start()
    calls._await(thread, Done())
    jobs.put(None)
    thread.join()
    assert len(looks) < 100  # of 200: it does not wait until its patience ends


def test_pools_that_the_program_uses_are_followed() -> None:
    with ThreadPoolExecutor(2) as outer:

        def in_new_pool(function: Callable[[], Any]) -> Any:
            with ThreadPoolExecutor(2) as pool:
                return sum(pool.map(lambda _: function(), range(2)))

        for run, macs in ((lambda f: outer.submit(f).result(), 768), (in_new_pool, 1024)):
            profile = flopwise.profile(Threads(run), (1, 16))
            assert (profile.total("macs"), profile.exact) == (macs, True)
        assert outer.submit(lambda: torch.ones(2).sum().item()).result() == 2


def test_work_in_a_thread_that_was_there_before_is_unknown() -> None:
    import queue

    work: Any = queue.Queue()
    done: Any = queue.Queue()

    def worker() -> None:
        while (function := work.get()) is not None:
            done.put(function())

    thread = threading.Thread(target=worker)
    thread.start()

    def elsewhere(function: Callable[[], Any]) -> Any:
        work.put(function)
        return done.get()

    model = Threads(elsewhere)
    model.layers.requires_grad_(False)
    try:
        profile = flopwise.profile(model.to("meta"), (1, 16))
    finally:
        work.put(None)
        thread.join()
    assert not profile.exact
    assert profile.total("macs") == 512
