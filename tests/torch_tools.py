"""What the tools that count PyTorch modules say themselves; each is skipped where it is not installed.

Each function takes a module, its positional inputs and its keyword inputs. The module is a throw-away, because most
tools change it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import pytest

with contextlib.suppress(ImportError):  # some tools import torchvision, which may lack its extension
    from tests import torch_vision  # noqa: F401


def ptflops(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """MACs and params; the tool is given positional arguments through a wrapper that stands for no module."""
    pytest.importorskip("ptflops")
    from ptflops.pytorch_engine import get_flops_pytorch

    forward = type(model).forward
    kept = model.__dict__.get("forward")

    def wrapped(first: Any, *more: Any, **named: Any) -> Any:
        return forward(model, first, *more, *args[1:], **{**named, **kwargs})

    model.forward = wrapped
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = get_flops_pytorch(model, (1,), False, input_constructor=lambda shape: args[0])
    finally:
        if kept is None:
            del model.forward
    return found


def thop(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """MACs and params."""
    pytest.importorskip("setuptools")
    module = pytest.importorskip("thop")
    assert not kwargs
    macs, params = module.profile(model, inputs=args, verbose=False)
    return int(macs), int(params)


def torchinfo(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int, int]:
    """Mult-adds, params and output bytes."""
    module = pytest.importorskip("torchinfo")
    found = module.summary(model, input_data=list(args), verbose=0, cache_forward_pass=False, **kwargs)
    return found.total_mult_adds, found.total_params, found.total_output_bytes


def calflops(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int, int]:
    """FLOPs, MACs and params."""
    pytest.importorskip("accelerate")
    module = pytest.importorskip("calflops")
    found = module.calculate_flops(
        model, args=list(args), kwargs=dict(kwargs), print_results=False, output_as_string=False
    )
    return tuple(map(int, found))  # type: ignore[return-value]


def deepspeed(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int, int]:
    """FLOPs, MACs and params."""
    profiler = pytest.importorskip("deepspeed.profiling.flops_profiler", exc_type=ImportError)
    found = profiler.get_model_profile(
        model, args=list(args), kwargs=dict(kwargs), print_profile=False, as_string=False, warm_up=0
    )
    return tuple(map(int, found))  # type: ignore[return-value]


def torchstat(model: Any, shape: tuple[int, ...], granularity: int = 1) -> str:
    """What the tool prints for a module that takes one image; the classes that it changes are put back."""
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("torchstat")
    from torchstat import stat

    if not hasattr(numpy, "long"):
        numpy.long = numpy.int64
    if not hasattr(pandas.DataFrame, "append"):
        pandas.DataFrame.append = lambda self, row: pandas.concat([self, row.to_frame().T])
    options = {name: pandas.get_option(name) for name in ("display.width", "display.max_rows", "display.max_columns")}
    pandas.set_option("display.width", 1000)
    classes = {type(m) for m in model.modules()}
    calls = {cls: cls.__dict__.get("__call__") for cls in classes}
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            stat(model, shape, granularity)
    finally:
        for cls, call in calls.items():
            if call is None and "__call__" in cls.__dict__:
                del cls.__call__
        for name, value in options.items():
            pandas.set_option(name, value)
    return text.getvalue()


def totals_of_torchstat(text: str) -> dict[str, int]:
    """Flops, MAdd and bytes moved of the line of totals, and the params below."""
    row = next(line for line in text.splitlines() if line.startswith("total"))
    found = re.findall(r"[\d,.]+", row)
    return {
        "params": int(float(found[0].replace(",", ""))),
        "madd": int(float(found[2].replace(",", ""))),
        "count": int(float(found[3].replace(",", ""))),
        "moved_bytes": int(float(found[-1].replace(",", ""))),
    }


#: Tools that take any module.
TOOLS: dict[str, Callable[[Any, tuple[Any, ...], Mapping[str, Any]], tuple[int, ...]]] = {
    "ptflops": ptflops,
    "thop": thop,
    "torchinfo": torchinfo,
    "calflops": calflops,
    "deepspeed": deepspeed,
}

#: Those that are installed here. DeepSpeed is not among the test requirements, since it compiles; with
#: ``pip install --no-build-isolation deepspeed`` its own answers are compared as well as the recorded ones.
INSTALLED = [name for name in TOOLS if name != "deepspeed" or find_spec("deepspeed") is not None]
