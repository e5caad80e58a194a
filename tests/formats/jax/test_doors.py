"""Functions of JAX by name and in memory: what is taken, and one line for what is not."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
import torch

import flopwise
from flopwise.cli import main
from flopwise.errors import FlopwiseError
from flopwise.formats.table import format_of

FILE = """
import sys
import jax
import jax.numpy as jnp

def product(x, y, /, scale: float = 2.0, *, train=False): return scale * (x @ y)
def named(x, *, w): return x @ w
def several(x, *others): return x @ others[0]
def all_of(*arrays): return arrays[0] @ arrays[1]
def unused(x): return x
def fails(x): raise ValueError("no\\nluck")
def asks(x): return x if x.sum() > 0 else -x
def turns(x): return jnp.zeros(int(x.sum()))
def leaves(x): sys.exit(3)
def prints(x): print("noise"); return x + 1
def gives(x): return "text"
def made(width=8): return jax.jit(lambda x: x @ jnp.ones((width, 3)))
def call(): return (lambda params, x: x @ params["w"]), {"w": jax.ShapeDtypeStruct((8, 3), "float32")}, jnp.ones((2, 8))
def recurses(x): return recurses(x)
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "both.py").write_text(f"import torch\n{FILE}")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("model", "options", "macs"),
    [
        ("net.py:product", ["-i", "2x8", "-i", "8x3"], 48),
        ("net.py:all_of", ["-i", "2x8", "-i", "8x3"], 48),
        ("net.py:product", ["-i", "Bx8", "-i", "8x3", "--dim", "B=4"], 96),
        ("net.py:product", ["-i", "2x8", "-i", "bfloat16:8x3", "-i", "train:value:True"], 48),
        ("net.py:named", ["-i", "2x8", "-i", "8x3"], 48),
        ("net.py:named", ["-i", "w:8x3", "-i", "x:2x8"], 48),
        ("net.py:several", ["-i", "2x8", "-i", "8x3"], 48),
        ("jax:both.py:product", ["-i", "2x8", "-i", "8x3"], 48),
        ("net.py:made", ["-i", "5x8"], 120),
        ("net.py:made", ["-i", "5x4", "--arg", "width=4"], 60),
        ("net.py:call", [], 48),
        ("net.py:made", ["-i", "5x8", "-b", "7"], 168),
    ],
)
def test_by_name(folder, capsys, model, options, macs):
    assert main(["profile", model, *options, "-f", "json"]) == 0
    assert f'"macs": {macs},' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "options", "line"),
    [
        ("net.py:product", [], "needs the shapes of x, y; give -i x:SHAPE -i y:SHAPE"),
        ("net.py:product", ["-i", "2x8", "-i", "7x3"], "dot_general requires contracting dimensions"),
        ("net.py:unused", ["-i", "2", "-i", "3"], "takes 1 argument (x), not 2"),
        ("net.py:unused", ["-i", "Nx3"], "'N' has no size; give --dim N=NUMBER"),
        ("net.py:unused", ["-i", "2x"], "is not a dimension"),
        ("net.py:unused", ["-i", "x:float3:2"], "float3"),
        ("net.py:unused", ["-i", "x:value:1+"], "is a Python literal"),
        (
            "net.py:unused",
            ["-i", "2", "--trip", "while=3"],
            "no loop is named 'while'; the loops of the model are: none",
        ),
        ("net.py:unused", ["-i", "2", "--train"], "give jax.value_and_grad of its loss"),
        ("net.py:unused", ["-i", "2", "--mode", "train"], "mode: only for PyTorch modules"),
        ("net.py:fails", ["-i", "2"], "failed with ValueError: no luck (net.py:"),
        ("net.py:asks", ["-i", "2"], "asks for the elements of an array while it is traced"),
        ("net.py:turns", ["-i", "2"], "asks for the elements of an array while it is traced"),
        ("net.py:leaves", ["-i", "2"], "ended itself with SystemExit(3)"),
        ("net.py:gives", ["-i", "2"], "failed with TypeError"),
        ("net.py:recurses", ["-i", "2"], "RecursionError"),
        ("net.py:number", ["-i", "2"], "is an int, not a function of JAX's"),
        ("net.py:absent", ["-i", "2"], "has no 'absent'"),
        ("net.py:made", ["-i", "2", "--arg", "wide=3"], "failed with TypeError"),
    ],
)
def test_one_line(folder, capsys, model, options, line):
    assert main(["profile", model, *options]) == 2
    output = capsys.readouterr()
    assert line in output.err
    assert output.err.count("\n") == 1
    assert not output.out


def test_what_a_function_prints_is_no_part_of_the_report(folder):
    words = [sys.executable, "-m", "flopwise", "profile", "net.py:prints", "-i", "4", "-f", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("{")
    assert "noise" in done.stderr


def plain(x):
    return x + 1


def of_jax(x):
    return jnp.tanh(x)


def of_torch(x):
    return torch.tanh(x)


def test_functions_in_memory_are_told_apart():
    formats = {
        format_of(model).name for model in (of_jax, jax.jit(plain), jax.grad(of_jax), jax.make_jaxpr(plain)(1.0))
    }
    assert formats == {"jax"}
    assert {format_of(model).name for model in (of_torch, torch.nn.Linear(1, 1), plain)} == {"torch"}


def test_traced_programs_have_their_sizes():
    traced = jax.jit(lambda x: x @ x).trace(jnp.ones((4, 4)))
    assert flopwise.profile(traced).sum.macs == flopwise.profile(traced.jaxpr).sum.macs == 64
    with pytest.raises(FlopwiseError, match="a traced program has its sizes"):
        flopwise.profile(traced, (4, 4))


def test_nothing_is_computed_and_weights_take_no_memory():
    huge = jax.ShapeDtypeStruct((1 << 20, 1 << 20), "float32")
    assert flopwise.profile(jax.jit(jnp.matmul), (huge, huge)).sum.macs == 1 << 60


def test_jax_is_imported_for_its_functions_alone():
    code = "import sys, flopwise; flopwise.profile('examples/tiny_resnet.onnx'); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_of_a_chain():
    peak = flopwise.profile(jax.jit(lambda x: jnp.tanh(jnp.sin(x))), (256,)).peak_activation_bytes
    assert peak == 2 * 256 * 4
