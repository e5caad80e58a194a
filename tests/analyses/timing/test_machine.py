"""This machine as a device, from files such as Linux has and a library such as NVIDIA's."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from flopwise.analyses.timing import machine
from flopwise.analyses.timing.device import Cache
from flopwise.analyses.timing.machine import Facts
from flopwise.errors import InputError

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
microcode\t: 0x2b000461
flags\t\t: fpu avx2 fma avx512f avx512_vnni amx_bf16

processor\t: 1
vendor_id\t: GenuineIntel
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a machine of two cores that share a last cache."""

    def put(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    put("proc/cpuinfo", CPUINFO)
    put("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB")
    put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000")
    shared = {"index0": "0", "index1": "0", "index2": "0", "index3": "0-127"}
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "105M")]
    ):
        folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
        put(f"{folder}/level", str(level))
        put(f"{folder}/type", kind)
        put(f"{folder}/size", size)
        put(f"{folder}/shared_cpu_list", shared[f"index{index}"])
    return tmp_path


def test_what_the_system_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda root: 2)
    found = machine.facts(root)
    assert (found.vendor, found.family, found.model, found.stepping) == ("GenuineIntel", 6, 143, 8)
    assert (found.ghz, found.cores, found.memory_bytes) == (3.8, 2, 16384 * 1024)
    assert found.caches == (Cache("l1", 2 * 48 << 10), Cache("l2", 2 * 2 << 20), Cache("llc", 105 << 20))
    assert machine.core_of(found) == "golden-cove-server"
    device = machine.this_cpu(found)
    peak = device.flops("float32", 1)
    assert peak is not None
    assert peak.value == pytest.approx(2 * 3.8e9 * 64)
    assert peak.scaled(1) == pytest.approx(3.8e9 * 64)
    assert not device.note


def test_a_machine_that_hides_its_clock_gets_the_highest(root: Path) -> None:
    (root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").unlink()
    device = machine.this_cpu(machine.facts(root))
    assert "does not report its clock, so 4.9 GHz is assumed" in device.note


@pytest.mark.parametrize(("quota", "cores"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", None)])
def test_a_control_group_limits_the_cores(root: Path, quota: str, cores: int | None) -> None:
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text(quota + "\n")
    everything = machine.usable_cores(root / "nowhere")
    assert machine.usable_cores(root) == min(everything, cores or everything)


@pytest.mark.parametrize(
    ("facts", "core"),
    [
        (Facts("GenuineIntel", 6, 85, flags=("avx512f",)), "skylake-server"),
        (Facts("GenuineIntel", 6, 85, flags=("avx512f", "avx512_vnni")), "cascade-lake"),
        (Facts("AuthenticAMD", 23, 1), "zen"),
        (Facts("AuthenticAMD", 23, 49), "zen2"),
        (Facts("AuthenticAMD", 25, 1), "zen3"),
        (Facts("AuthenticAMD", 25, 17), "zen4"),
        (Facts("AuthenticAMD", 26, 2), "zen5"),
        (Facts(part=0xD4F), "neoverse-v2"),
        (Facts("Somebody", 9, 9, flags=("avx2", "fma")), "zen3"),
        (Facts("Somebody", 9, 9), None),
    ],
)
def test_kinds_of_cores(facts: Facts, core: str | None) -> None:
    assert machine.core_of(facts) == core


def test_a_cpu_that_nobody_lists_has_no_figures() -> None:
    device = machine.this_cpu(Facts(name="Z80"))
    assert device.peaks == ()
    assert device.flops("float32") is None


def nvml(names: list[str]) -> types.ModuleType:
    """A stand-in for nvidia-ml-py."""
    module = types.ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})  # type: ignore[attr-defined]
    module.nvmlInit = module.nvmlShutdown = lambda: None  # type: ignore[attr-defined]
    module.nvmlDeviceGetCount = lambda: len(names)  # type: ignore[attr-defined]
    module.nvmlDeviceGetHandleByIndex = lambda index: index  # type: ignore[attr-defined]
    module.nvmlDeviceGetName = lambda handle: names[handle]  # type: ignore[attr-defined]
    memory = types.SimpleNamespace(total=80 * 2**30)
    module.nvmlDeviceGetMemoryInfo = lambda handle: memory  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5 80GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM4 80GB"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("Tesla T4", "NVIDIA T4"),
        ("NVIDIA H200", "NVIDIA H200 SXM 141GB"),
    ],
)
def test_gpus_of_this_machine(name: str, listed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml([name]))
    (device,) = machine.this_gpus()
    assert (device.id, device.name, device.note) == ("gpu0", name, f"figures of {listed}")
    assert machine.named("gpu0").peaks == device.peaks


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml([]))
    with pytest.raises(InputError, match="no gpu1 in this machine: NVML shows 0"):
        machine.named("gpu1")


def test_without_the_library_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.this_gpus() == ()
