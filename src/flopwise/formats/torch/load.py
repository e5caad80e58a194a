"""PyTorch models by name: a callable in a module or a Python file, an exported program, a TorchScript file.

No checkpoint is ever unpickled: a file with nothing but tensors is not a model.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from flopwise._user_code import EndedError, on_command_line, place_of, user_code
from flopwise.errors import InputError, ModelError, UntrustedError, did_you_mean, message, with_article
from flopwise.formats.sources.location import is_callable
from flopwise.formats.torch.kinds import Kwargs
from flopwise.formats.torch.libraries import CATALOGUES, maker_of, repaired
from flopwise.formats.weights.torch_files import NO_PROGRAM, holds_program, is_exported, members

_NEEDS = "PyTorch is needed for that: pip install torch"


def made(model: str, arguments: Mapping[str, str] | None = None, in_memory: bool = False) -> Any:
    """The module that a callable returns.

    It is made on the meta device, without memory for its weights, where it allows that.

    Args:
        model: ``package.module:callable``, ``file.py:callable``, or a library's name of a model, as ``timm:resnet50``.
        arguments: its keyword arguments as texts. A text is a number, True, False, None, a list of these with commas,
            or another callable's name, which is called first; ``config.hidden_size=64`` is an argument of that one.
        in_memory: whether its weights are to have elements.

    Raises:
        ModelError: there is no such callable, it fails, or it returns something else.
    """
    try:
        import torch
    except ImportError:
        raise ModelError(f"{model}: {_NEEDS}") from None
    thing = looked_up(model)
    if isinstance(thing, torch.nn.Module):
        return thing
    if not callable(thing):
        raise ModelError(
            f"{model}: is {with_article(type(thing).__name__)}, not a callable that returns a torch.nn.Module"
        )
    try:
        result = _called(model, thing, arguments or {}, None if in_memory else torch.device("meta"))
    except EndedError:
        raise
    except ModelError:  # a few decide by values while they are made
        try:
            with contextlib.nullcontext() if in_memory else _hollow_parameters():
                result = _called(model, thing, arguments or {}, None)
        except EndedError:
            raise
        except ModelError:
            if in_memory:
                raise
            result = _called(model, thing, arguments or {}, None)
    if not isinstance(result, torch.nn.Module):
        raise ModelError(f"{model}: returned {with_article(type(result).__name__)}, not a torch.nn.Module")
    return result


@contextlib.contextmanager
def _hollow_parameters() -> Iterator[None]:
    """Parameters go to the meta device as soon as a module has them; other tensors have elements."""
    from torch import nn

    own: Any = nn.Module
    register = own.register_parameter

    def hollow(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        register(module, name, param)
        if param is not None and type(param) is nn.Parameter and not param.is_meta:
            module._parameters[name] = nn.Parameter(param.data.to("meta"), param.requires_grad)

    own.register_parameter = hollow
    try:
        yield
    finally:
        own.register_parameter = register


def _called(model: str, thing: Any, arguments: Mapping[str, str], device: Any) -> object:
    values = argument_values(model, arguments)
    make = thing
    if isinstance(thing, type) and "config" in values and hasattr(thing, "from_config"):
        make = thing.from_config
    from flopwise.formats.torch.record.keep import constructed

    with model_errors(model, "it made the module"), silent():
        try:
            return constructed(make, lambda: repaired(lambda: make(**values)), device)
        except TypeError as error:
            missing = re.findall(r"'(\w+)'", str(error).partition(" required positional argument")[2])
            if missing:
                texts = " ".join(f"--arg {name}=VALUE" for name in missing)
                plain = ", ".join(f"{name!r}: 'VALUE'" for name in missing)
                cure = texts if on_command_line() else f"arguments={{{plain}}}"
                other = f"; a function of JAX is given as jax:{model}" if "jax" in sys.modules else ""
                raise ModelError(f"{model}: needs {' and '.join(map(repr, missing))}: give {cure}{other}") from error
            unexpected = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if unexpected is None or unexpected[1] not in values:
                raise
            hint = _argument_hint(make, unexpected[1], str(error))
            raise ModelError(f"{model}: has no argument {unexpected[1]!r}{hint}") from error


def _argument_hint(make: object, strange: str, message: str) -> str:
    """The nearest of the arguments that a callable takes, or all: its own and those of what it passes them to."""
    inner = getattr(sys.modules.get(getattr(make, "__module__", "")), re.split(r"[.(]", message)[0], None)
    names: list[str] = []
    for each in (make, inner):
        with contextlib.suppress(TypeError, ValueError):
            parameters = inspect.signature(each).parameters.values() if callable(each) else ()
            names += (p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
    return did_you_mean(strange, names) or (f"; it has {', '.join(dict.fromkeys(names))}" if names else "")


def argument_values(model: str, texts: Mapping[str, str]) -> Kwargs:
    """The values that texts stand for."""
    values: Kwargs = {}
    for name, text in texts.items():
        if "." in name:
            continue
        if is_callable(text):
            inner = {n.partition(".")[2]: t for n, t in texts.items() if n.startswith(f"{name}.")}
            maker = looked_up(text)
            with model_errors(model, f"it made {name}"):
                values_inside = argument_values(model, inner)
                values[name] = repaired(lambda: maker(**values_inside)) if callable(maker) else maker  # noqa: B023 - called at once
        else:
            values[name] = _value(text)
    left = [n for n in texts if "." in n and n.partition(".")[0] not in values]
    if left:
        raise InputError(f"--arg {left[0]}: there is no --arg {left[0].partition('.')[0]}=package.module:callable")
    return values


def _value(text: str) -> object:
    constants = {"True": True, "true": True, "False": False, "false": False, "None": None, "none": None}
    if text in constants:
        return constants[text]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    if "," in text:
        return [_value(part.strip()) for part in text.split(",") if part.strip()]
    return text


def looked_up(model: str) -> Any:
    """The object that a name stands for.

    Raises:
        ModelError: it cannot be imported.
    """
    where, _, name = model.rpartition(":")
    module = _file(where) if where.endswith(".py") else _module(model, where)
    if where in CATALOGUES and isinstance(getattr(module, name, None), (type(None), ModuleType)):
        with model_errors(model, "it was looked up"), silent():
            return maker_of(where, name)
    thing: Any = module
    for part in name.split("."):
        with model_errors(model, "it was imported"), silent():  # asking for it may import more
            known = bool(repaired(lambda: hasattr(thing, part)))  # noqa: B023 - called at once
        if not known:
            from difflib import get_close_matches

            near = get_close_matches(part, [n for n in dir(thing) if not n.startswith("_")], n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ModelError(f"{model}: {where} has no {name!r}{hint}")
        thing = getattr(thing, part)
    return thing


def _module(model: str, where: str) -> object:
    """A module by its name; the current folder is only looked into for what is nowhere else."""
    top, here = where.partition(".")[0], os.getcwd()
    try:
        importable = top in sys.modules or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        importable = False
    in_folder = not importable and PathFinder.find_spec(top, [here]) is not None
    with model_errors(model, "it was imported"), silent(), _beside(here) if in_folder else contextlib.nullcontext():
        try:
            return repaired(lambda: importlib.import_module(where))
        except ModuleNotFoundError as error:
            if near := _nearest(where, error.name or "", here):
                name = model.rpartition(":")[2]
                raise ModelError(f"{model}: no module {error.name!r}; did you mean {near}:{name}?") from error
            raise


def _nearest(where: str, missing: str, here: str) -> str:
    """The module with the nearest name beside one that is missing, with what follows it in a path; "" for none."""
    import pkgutil
    from difflib import get_close_matches

    if not f"{where}.".startswith(f"{missing}."):
        return ""  # the module is there, and imports another that is not
    home, _, last = missing.rpartition(".")
    places = getattr(sys.modules.get(home), "__path__", None) if home else [here, *sys.path]
    if places is None:
        return ""
    near = get_close_matches(last, [module.name for module in pkgutil.iter_modules(places)], 1)
    return f"{home}.{near[0]}".lstrip(".") + where[len(missing) :] if near else ""


def _file(path: str) -> object:
    if not os.path.isfile(path):
        raise ModelError(f"{path}: no such file")
    state = os.stat(path)
    version = (os.path.abspath(path), state.st_mtime_ns, state.st_size)
    if version in _IMPORTED:
        return _IMPORTED[version]
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with model_errors(path, "it was imported"), _beside(os.path.dirname(os.path.abspath(path))):
        spec.loader.exec_module(module)
    _IMPORTED.clear()
    _IMPORTED[version] = module
    return module


#: The file that was imported last, as it was then: a model that needs its weights in memory is made a second time.
_IMPORTED: dict[tuple[str, int, int], object] = {}


@contextlib.contextmanager
def _beside(folder: str) -> Iterator[None]:
    """Modules in a folder are found, as they are by a script in it."""
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        if added:
            sys.path.remove(folder)


@contextlib.contextmanager
def model_errors(model: str, doing: str) -> Iterator[None]:
    """Whatever the user's code raises becomes a ModelError of one line, with the place where it was raised."""
    try:
        with user_code(model, doing):
            yield
    except (ModelError, InputError):
        raise
    except ImportError as error:
        raise ModelError(f"{model}: cannot be imported ({' '.join(str(error).split())}){place_of(error)}") from error
    except Exception as error:
        text = message(error)[:300]
        raise ModelError(f"{model}: failed with {type(error).__name__}: {text}{place_of(error)}") from error


@contextlib.contextmanager
def silent() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def loaded(path: str | os.PathLike[str], trust_code: bool = False) -> Any:
    """The module in a file: an exported program or a TorchScript file.

    Args:
        path: the file.
        trust_code: whether PyTorch may load it, which runs what is in it. Without that, an exported program is read as
            data, and a TorchScript file is refused.

    Raises:
        ModelError: it is neither, damaged, or not to be trusted.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise ModelError(f"{name}: {'is a directory' if os.path.isdir(name) else 'no such file'}")
    inside = members(name)
    if not holds_program(inside):
        raise ModelError(f"{name}: {NO_PROGRAM}")
    try:
        import torch
    except ImportError:
        raise ModelError(f"{name}: {_NEEDS}") from None
    with model_errors(name, "it was loaded"), silent():
        if not trust_code and is_exported(inside):
            from flopwise.formats.torch.exported import load

            return load(name)
        if not trust_code:
            raise UntrustedError(
                f"{name}: a TorchScript file is code, which is not run unasked; --trust-code (trust_code=True) runs it"
            )
        if is_exported(inside):
            with _tensors_only():
                return torch.export.load(name)
        loader: Any = torch.jit
        return loader.load(name, map_location="cpu")


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Whatever is read holds tensors and plain values; anything else is refused, not unpickled."""
    import torch

    loader: Any = torch
    original = loader.load

    def load(file: object, *args: object, **kwargs: object) -> Any:
        return original(file, *args, **{**kwargs, "weights_only": True})

    loader.load = load
    try:
        yield
    finally:
        loader.load = original
