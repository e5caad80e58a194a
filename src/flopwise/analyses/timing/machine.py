"""The machine that flopwise runs on, as devices: its CPU from what the system says, its GPUs through NVML."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flopwise.analyses.timing import catalog
from flopwise.analyses.timing.device import Cache, Device, Peak, ReportedMemory
from flopwise.errors import InputError
from flopwise.formats.sources.text import JsonObject


@dataclass(frozen=True, slots=True)
class Facts:
    """The CPU as the system reports it; "" and 0 where it reports nothing."""

    vendor: str = ""
    family: int = 0
    model: int = 0
    stepping: int = 0
    name: str = ""
    microcode: str = ""
    part: int = 0
    flags: tuple[str, ...] = ()
    #: Cores that this process may use.
    cores: int = 1
    #: Highest clock of a core; None where the system does not tell it, as in virtual machines.
    ghz: float | None = None
    caches: tuple[Cache, ...] = ()
    memory_bytes: int = 0
    hypervisor: bool = False
    numa: int = 1


def facts(root: Path = Path("/")) -> Facts:
    """The CPU of this machine, or of the one whose files are below a folder."""
    if not (root / "proc/cpuinfo").exists():
        return _portable_facts()
    info = _cpuinfo(root)
    flags = tuple(sorted((info.get("flags") or info.get("Features") or "").split()))
    return Facts(
        vendor=info.get("vendor_id", ""),
        family=_integer(info.get("cpu family")),
        model=_integer(info.get("model")),
        stepping=_integer(info.get("stepping")),
        name=info.get("model name", ""),
        microcode=info.get("microcode", ""),
        part=_integer(info.get("CPU part")),
        flags=flags,
        cores=usable_cores(root),
        ghz=_ghz(root),
        caches=_caches(root, usable_cores(root)),
        memory_bytes=_memory(root),
        hypervisor="hypervisor" in flags,
        numa=max(1, len(list((root / "sys/devices/system/node").glob("node[0-9]*")))),
    )


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit() and int(period):
        count = min(count, max(1, -(-int(quota) // int(period))))
    return count


def core_of(host: Facts) -> str | None:
    """The kind of core behind the facts, a name in the table of CPUs; None where it is not listed."""
    listed = [core for core, row in catalog.cores().items() if _is_of(host, row)]
    if listed:
        return listed[-1]  # of kinds with the same numbers the later one has a flag
    if "avx512f" in host.flags:
        return "zen5"
    return "zen3" if {"avx2", "fma"} <= {*host.flags} else None


def _is_of(host: Facts, core: catalog.Row) -> bool:
    """True if a CPU has the numbers of a kind of core."""
    if host.part:
        return host.part in core.get("parts", ())
    same = (host.vendor, host.family) == (core.get("vendor"), core.get("family"))
    numbered = same and any(models[0] <= host.model <= models[-1] for models in core["models"])
    return numbered and ("flag" not in core or core["flag"] in host.flags)


def this_cpu(host: Facts | None = None) -> Device:
    """This machine's CPU, with the figures that follow from its kind of core and its clock."""
    host = host or facts()
    core = core_of(host)
    peaks: tuple[Peak, ...] = ()
    note = ""
    if core is not None:
        ghz = host.ghz or catalog.cores()[core]["most_ghz"]
        peaks = tuple(catalog.figures_of_core(core, host.cores, ghz))
        memory = catalog.most_bandwidth(core)
        peaks += (memory,) if memory else ()
        if host.ghz is None:
            note = f"the system does not report its clock, so {ghz:g} GHz is assumed, the highest of any {core} chip"
    vendor = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(host.vendor, "arm" if host.part else "")
    name = f"{host.name or platform.processor() or 'CPU'} ({host.cores} core{'s' if host.cores > 1 else ''})"
    return Device(
        "cpu",
        name,
        "cpu",
        vendor,
        host.memory_bytes,
        peaks,
        ("this",),
        host.cores,
        host.caches,
        note,
        reported=ReportedMemory(host.memory_bytes, "measured", "the system"),
    )


def this_gpus() -> tuple[Device, ...]:
    """This machine's NVIDIA GPUs, with the figures of their models; () without a driver or without nvidia-ml-py."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    devices = []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            devices.append(_gpu(index, name if isinstance(name, str) else name.decode(), memory))
    except pynvml.NVMLError:
        return tuple(devices)
    finally:
        pynvml.nvmlShutdown()
    return tuple(devices)


def _gpu(index: int, name: str, memory: int) -> Device:
    """A GPU that NVML names, with the figures of the listed model of that name whose memory is nearest."""
    best, reported = catalog.nearest_gpu(name, memory), ReportedMemory(memory, "measured", "NVML")
    if best is None:
        note = "its model is not listed"
        return Device(f"gpu{index}", name, "gpu", "nvidia", memory, (), note=note, reported=reported)
    note = f"figures of {best.name}"
    return replace(best, id=f"gpu{index}", name=name, memory_bytes=memory, note=note, reported=reported)


def present() -> tuple[Device, ...]:
    """The devices of this machine: its CPU, then its GPUs."""
    return (this_cpu(), *this_gpus())


def named(name: str | None) -> Device:
    """A device of this machine ("cpu", "gpu0") or of the tables; None is this machine's CPU.

    Raises:
        InputError: no device goes by that name.
    """
    if name is None or name.lower() in ("cpu", "this"):
        return this_cpu()
    if name.lower().startswith("gpu") and name[3:].isdigit():
        gpus = this_gpus()
        if int(name[3:]) >= len(gpus):
            raise InputError(f"no {name} in this machine: NVML shows {len(gpus)} (the nvidia extra and a driver help)")
        return gpus[int(name[3:])]
    return catalog.find(name)


def _cpuinfo(root: Path) -> Mapping[str, str]:
    first = _read(root / "proc/cpuinfo").split("\n\n", 1)[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _integer(text: str | None) -> int:
    try:
        return int(text or "0", 0)
    except ValueError:
        return 0


def _ghz(root: Path) -> float | None:
    texts = [_read(p) for p in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    clocks = [int(text) for text in texts if text.isdigit()]
    return max(clocks) / 1e6 if clocks else None


def _caches(root: Path, cores: int) -> tuple[Cache, ...]:
    """The data caches that so many cores can use, each level added up over its instances."""
    sizes: dict[str, int] = {}
    folder = root / "sys/devices/system/cpu/cpu0/cache"
    entries = sorted(folder.glob("index[0-9]*"))
    last = max((_integer(_read(e / "level")) for e in entries), default=0)
    for entry in entries:
        level, size = _integer(_read(entry / "level")), _read(entry / "size")
        if _read(entry / "type") == "Instruction" or not size[:-1].isdigit():
            continue
        nbytes = int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
        sharing = max(1, _count(_read(entry / "shared_cpu_list")))
        name = f"l{level}" if level < max(last, 3) else "llc"
        sizes[name] = nbytes * -(-cores // sharing)
    return tuple(Cache(level, nbytes) for level, nbytes in sizes.items())


def _count(ranges: str) -> int:
    """Number of processors that a list such as 0-3,8 names."""
    total = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            total += int(last or first) - int(first) + 1
    return total


def _memory(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal"):
            return int(line.split()[1]) * 1024
    return 0


def _portable_facts() -> Facts:
    """The CPU by py-cpuinfo, on systems without /proc; little is known without it."""
    try:
        import cpuinfo
    except ImportError:
        return Facts(name=platform.processor(), cores=usable_cores())
    info: Mapping[str, Any] = cpuinfo.get_cpu_info()
    hertz = (info.get("hz_advertised") or info.get("hz_actual") or (0,))[0]
    sizes = {"l2": info.get("l2_cache_size"), "llc": info.get("l3_cache_size")}
    return Facts(
        vendor=str(info.get("vendor_id_raw", "")),
        family=int(info.get("family", 0)),
        model=int(info.get("model", 0)),
        stepping=int(info.get("stepping", 0)),
        name=str(info.get("brand_raw", "")),
        flags=tuple(sorted(info.get("flags", ()))),
        cores=usable_cores(),
        ghz=hertz / 1e9 or None,
        caches=tuple(Cache(level, size) for level, size in sizes.items() if isinstance(size, int)),
    )


# The identity of a measurement: the machine and the engine, as canonical JSON and its SHA-256.
#
# A change of any of these facts is a new environment, and no figure is averaged over two. The host's name, the date,
# the load and Python's version are no part of it.


#: Facts that an engine tells only once it is imported; without them two environments count as the same.
LATE = ("build",)

#: Facts of a CPU that identify it, beside its instruction sets and caches.
_OF_MACHINE = ("vendor", "family", "model", "stepping", "name", "microcode", "cores", "numa", "hypervisor")


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts of a machine and an engine."""

    facts: JsonObject

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON."""
        return digest(self.facts)

    def matches(self, other: Environment) -> bool:
        """True if the two differ at most in what only a running engine tells."""
        return self._early() == other._early()

    def _early(self) -> str:
        engine = {k: v for k, v in self.facts.get("engine", {}).items() if k not in LATE}
        return canonical({**self.facts, "engine": engine})


def environment(engine: Mapping[str, object], host: Facts | None = None) -> Environment:
    """The environment of an engine on this machine's CPU.

    Args:
        engine: name, version, build, provider, level, threads and further options of the engine.
        host: facts of the CPU; None asks the system.
    """
    cpu = host or facts()
    machine = {name: getattr(cpu, name) for name in _OF_MACHINE}
    machine |= {"isa": list(cpu.flags), "caches": {cache.level: cache.nbytes for cache in cpu.caches}}
    policy = {"allocator": os.path.basename(os.environ.get("LD_PRELOAD", ""))}
    return Environment({"machine": machine, "engine": dict(engine), "policy": policy})


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
