"""Calls of the public functions with arguments of wrong kinds: each ends well, or with an error of flopwise's own."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy

import flopwise
import fuzz.seeds as seeds
from flopwise import compat
from flopwise.errors import FlopwiseError, InputError
from flopwise.formats.options import Keywords

#: Seconds after which a call hangs.
PATIENCE = 60

#: Of the values for each parameter every so many is taken.
STEP = 2

#: What may be handed over in place of an argument, made anew for each call.
VALUES: tuple[Callable[[], Any], ...] = (
    *(lambda value=value: value for value in (None, True, 0, -1, 3, 2**70, 0.5, float("nan"), float("inf"))),
    *(lambda value=value: value for value in ("", "x", "\0", "x.pt2", b"x", 1j, ..., (1, "x"), ())),
    *(dict, lambda: {"x": "x"}, lambda: {1: 1}, lambda: [None], lambda: ["x"], lambda: {2}, lambda: iter("x")),
    *(object, lambda: print, lambda: Path("x"), lambda: numpy.zeros(2), lambda: numpy.float64("nan")),
)


#: A line of vLLM's log.
ENGINE_LINE = (
    "INFO 05-19 10:13:5{} Avg prompt throughput: 1 tokens/s, Avg generation throughput: 1 tokens/s, Running: 1 reqs\n"
)


class Subject(NamedTuple):
    """A public function."""

    name: str
    function: Callable[..., Any]
    #: The arguments with which it works.
    right: dict[str, Any]
    #: The parameters that may be given by name.
    parameters: tuple[str, ...]


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments, those of the options of all formats among them."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if isinstance(function, functools.partial):
        (cls,) = function.args
        return (*inspect.signature(cls).parameters, *(name for name in names if name not in ("cls", "fields")))
    more = any(p.kind == p.VAR_KEYWORD and "Keywords" in str(p.annotation) for p in parameters)
    return (*names, *(Keywords.__annotations__ if more else ()))


#: Arguments that go through ``**`` of a function without a type of their own.
FURTHER: dict[str, tuple[str, ...]] = {
    "check": ("fold", "train", "phase", "options"),
    "compare": ("fold", "train", "dims", "options"),
    "sparsity": ("batch_size", "dims", "weights", "rules"),
    "llm": ("generate", "kv_dtype", "curve", "rewrites", "conventions"),
    "limits": ("request_seconds", "header_bytes"),
    "Formula.value": ("N",),
    "Formula.at": ("N",),
}

#: Methods of results that take arguments.
METHODS: dict[str, tuple[str, ...]] = {
    "Profile": ("total", "by"),
    "Comparison": ("total", "exact", "comparable", "subtracted", "difference"),
    "Formula": (
        "total",
        "term",
        "value",
        "lambdify",
        "source",
        "without_formula",
        "at_least",
        "plot",
        "by",
        "point",
        "at",
    ),
    "Sparsity": ("tensor",),
    "Device": ("flops", "rated", "bandwidth", "level_of"),
}


#: Classes whose objects people make themselves, and a function that such an object is handed to.
CLASSES: dict[str, Callable[..., Any]] = {
    "OnnxOptions": lambda cls, **fields: flopwise.profile("m.onnx", options=cls(**fields)),
    "TorchOptions": lambda cls, model, **fields: flopwise.profile(model, (3, 4), options=cls(**fields)),
    "CaffeOptions": lambda cls, **fields: flopwise.profile("net.prototxt", options=cls(**fields)),
    "Convention": lambda cls, **fields: flopwise.profile("m.onnx", convention=cls(**fields)),
    "Operator": lambda cls, **fields: flopwise.profile("m.onnx", rules={"Conv": cls(**fields)}, train=True),
    "Gradient": lambda cls, **fields: flopwise.profile(
        "m.onnx", rules={"Conv": flopwise.Operator(lambda node: flopwise.Counts(), gradient=cls(**fields))}, train=True
    ),
}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each public function by its name; of a class that people make themselves, what takes an object of it."""
    for name in flopwise.__all__:
        if inspect.isfunction(getattr(flopwise, name)):
            yield name, getattr(flopwise, name)
    for name, function in vars(flopwise.zoo).items():
        if inspect.isfunction(function) and function.__module__ == flopwise.zoo.__name__ and name[0] != "_":
            yield f"zoo.{name}", function
    for room in compat.__all__:
        module = import_module(f"flopwise.compat.{room}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or name.endswith(("Analysis", "Analyzer", "Engine")):
                yield f"{room}.{name}", value
    for name, use in CLASSES.items():
        yield name, functools.partial(use, getattr(flopwise, name))
    for cls, methods in METHODS.items():
        for name in methods:
            yield f"{cls}.{name}", getattr(getattr(flopwise, cls), name)


@functools.cache
def subjects() -> tuple[Subject, ...]:
    """The public functions with arguments that are right; their files lie in the current folder."""
    import torch

    files = {
        "m.onnx": seeds.onnx_models(),
        "net.prototxt": seeds.prototxts(),
        "config.json": seeds.configurations(),
        "trace.json": seeds.kineto_traces(),
    }
    for name, contents in files.items():
        Path(name).write_bytes(contents[0])
    Path("engine.log").write_text("".join(map(ENGINE_LINE.format, range(2))))
    module, tensor = torch.nn.Linear(4, 2), torch.ones(3, 4)
    flopwise.zoo.build("m.onnx", output="data")
    analysis = import_module("flopwise.compat.mmengine")
    formula = flopwise.formula(module, ("N", 4))
    recorded = flopwise.trace(None, "trace.json")
    right: dict[str, dict[str, Any]] = {
        "annotate": {"model": module},
        "compare_traces": {"before": recorded, "after": recorded},
        "trace": {"model": None, "file": "trace.json"},
        "check": {"model": "m.onnx", "budget": {"model": {"macs": "1 G"}}},
        "compare": {"convention": ["flops", "macs"]},
        "devices": {},
        "diffusion": {"model": Path(__file__).parents[1] / "examples" / "tiny_diffusion", "steps": 1, "prompt": 4},
        "formula": {"model": module, "inputs": ("N", 4)},
        "limits": {},
        "schema": {"name": "profile"},
        "llm": {"model": "config.json", "prompt": 4, "generate": 2},
        "llm_log": {"model": "config.json", "log": "engine.log", "device": "h100", "prompt": 4, "generate": 2},
        "render": {"profile": flopwise.profile("m.onnx")},
        "write_shapes": {"model": "m.onnx", "path": "new.onnx"},
        "OnnxOptions": {},
        "TorchOptions": {"model": module},
        "CaffeOptions": {},
        "Convention": {
            "name": "own",
            "unit": "FLOP",
            "summary": "",
            "source": "",
            "weights": flopwise.Counts(mac=2),
        },
        "Operator": {"rule": lambda node: flopwise.Counts(mac=1)},
        "Gradient": {"rule": lambda node, wanted: flopwise.Counts(mac=1), "keeps": lambda node, wanted: ()},
        "zoo.build": {"output": "data"},
        "zoo.open": {"folder": "data"},
        "zoo.query": {"folder": "data", "sql": "FROM models"},
        "zoo.report": {"folder": "data"},
        "zoo.summary": {"built": None},
        "caffe.get_flops": {"deploy_file": "net.prototxt"},
        "calflops.calculate_flops": {"model": module, "input_shape": (3, 4)},
        "calflops.macs_to_string": {"macs": 1000},
        "calflops.params_to_string": {"params_num": 1000},
        "fvcore.flop_count_str": {"flops": analysis.FlopAnalyzer(module, tensor)},
        "fvcore.flop_count_table": {"flops": analysis.FlopAnalyzer(module, tensor)},
        "fvcore.parameter_count": {"model": module},
        "fvcore.parameter_count_table": {"model": module},
        "mmengine.complexity_stats_str": {"flops": analysis.FlopAnalyzer(module, tensor)},
        "mmengine.complexity_stats_table": {"flops": analysis.FlopAnalyzer(module, tensor)},
        "mmengine.get_model_complexity_info": {"model": module, "input_shape": (4,)},
        "mmengine.parameter_count": {"model": module},
        "mmengine.parameter_count_table": {"model": module},
        "onnx_tool.ShapeEngine": {"model": "m.onnx", "input_desc": {"x": [1, 3, "h", 8]}, "variables": {"h": 8}},
        "onnx_tool.create_ndarray_f32": {"shape": (1, 2)},
        "onnx_tool.create_ndarray_int64": {"shape": (1, 2)},
        "onnx_tool.loadmodel": {"f": "m.onnx"},
        "onnx_tool.model_profile": {"m": "m.onnx"},
        "onnx_tool.model_shape_regress": {
            "m": "m.onnx",
            "input_desc": {"x": [1, 3, "h", 8]},
            "input_range": {"h": (8, 16)},
        },
        "onnx_tool.narray_calc_sparsity": {"arr": numpy.zeros((2, 2), "f")},
        "onnx_tool.search_sparse_blocksize": {"arr": numpy.zeros((2, 2), "f"), "ratio": 1.0},
        "ptflops.get_model_complexity_info": {"model": module, "input_res": (4,)},
        "ptflops.params_to_string": {"params_num": 1000},
        "thop.clever_format": {"nums": 5},
        "thop.profile": {"model": module, "inputs": (tensor,)},
        "torchinfo.summary": {"model": module, "input_size": (3, 4)},
        "torchstat.stat": {"model": torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1)), "input_size": (1, 4, 4)},
        "Profile": {"self": flopwise.profile("m.onnx"), "figure": "macs", "key": "op"},
        "Comparison": {"self": flopwise.compare("m.onnx", "m.onnx"), "figure": "macs"},
        "Formula": {
            "self": formula,
            "figure": "macs",
            "language": "python",
            "key": "op",
        },
        "Formula.plot": {"self": formula, "symbol": "N", "sizes": [1, 2]},
        "Formula.point": {"self": formula, "sizes": {"N": 2}},
        "Sparsity": {"self": flopwise.sparsity("m.onnx"), "name": "w"},
        "Device": {"self": flopwise.devices("h100")[0], "dtype": "float16", "nbytes": 1000, "level": "dram"},
    }
    return tuple(
        _subject(name, function, right, {"flops": 1000, "model": module, "inputs": tensor})
        for name, function in public()
    )


def _subject(
    name: str, function: Callable[..., Any], known: dict[str, dict[str, Any]], usual: dict[str, Any]
) -> Subject:
    names = (*parameters_of(function), *FURTHER.get(name, ()))
    room = name.partition(".")[0]
    if name in known:
        right = known[name]
    elif room in METHODS:
        right = {key: value for key, value in known[room].items() if key in names}
    elif "." in name:
        right = {key: value for key, value in usual.items() if key in names}
    else:
        right = {"model": "m.onnx"}
    return Subject(name, function, right, tuple(n for n in names if n != "self"))


def calls() -> Iterator[tuple[Subject, dict[str, Callable[[], Any]]]]:
    """Each function with one wrong argument: every second of the values for each of its parameters."""
    number = 0
    for subject in subjects():
        for parameter in subject.parameters:
            number += 1
            for make in VALUES[number % STEP :: STEP]:
                yield subject, {parameter: make}


def run(data: bytes) -> None:
    """A call that bytes choose: two of them the function, and each further pair a parameter and a value."""
    with inside():
        subject = subjects()[int.from_bytes(data[:2], "big") % len(subjects())]
        pairs = zip(data[2:8:2], data[3:8:2], strict=False)
        names, values = subject.parameters or ("",), len(VALUES)
        check(subject, {names[p % len(names)]: VALUES[v % values] for p, v in pairs if subject.parameters})


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """The current folder is one of these calls' own, to which the store of measured times belongs."""
    before = os.getcwd()
    os.chdir(_folder().name)
    try:
        with mock.patch.dict(os.environ, {"FLOPWISE_STORE": "times.sqlite"}):
            yield
    finally:
        os.chdir(before)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="flopwise-", ignore_cleanup_errors=True)


class Hangs(BaseException):
    """A call that does not end."""


def check(subject: Subject, wrong: dict[str, Callable[[], Any]]) -> None:
    """Call a function with some arguments replaced.

    Raises:
        Exception: it ends with an error that is not one of flopwise's own, nor one that a tool raises by itself.
    """
    arguments = {**subject.right, **{name: make() for name, make in wrong.items()}}
    models = ("m.onnx",) if subject.name in ("compare", "zoo.build") else ()
    try:
        with quiet(), _alarm():
            result = subject.function(*models, **arguments)
            with result if isinstance(result, contextlib.AbstractContextManager) else contextlib.nullcontext():
                pass
    except FlopwiseError:
        pass
    except Exception as error:
        if not _raised_on_purpose(error):
            raise


def _raised_on_purpose(error: Exception) -> bool:
    """Whether a signature of another tool raises what that tool raises, or there is no such parameter."""
    if isinstance(error, TypeError) and "got an unexpected keyword argument" in str(error):
        return True
    frame = traceback.extract_tb(error.__traceback__)[-1]
    own = os.path.join("flopwise", "compat", "") in frame.filename
    return own and (frame.line or "").startswith(("raise ", "assert "))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing is printed, and no engine is started."""
    refused = mock.Mock(side_effect=InputError("no engine is started here"))
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        mock.patch("flopwise.analyses.timing.bench.bench", refused),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """What takes longer than anybody waits is ended, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
