"""Modules that no compiler wrote: one line, whatever they say."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import jax
import pytest
from jax import lax

import flopwise
from flopwise.formats.options import StablehloOptions
from flopwise.formats.sources.source import BytesSource
from flopwise.formats.stablehlo import decode, read

S, I = "tensor<f32>", "tensor<i32>"  # noqa: E741 # the type
HUGE = "tensor<9223372036854775807x9223372036854775807xf32>"


def _main(body: str, result: str = S, more: str = "") -> str:
    return f"module {{ func.func @main(%a: {S}, %c: {I}) -> {result} {{ {body} }}\n{more} }}"


def _calls(number: int, each: str) -> str:
    return "".join(f"func.func private @f{i}(%a: {S}) -> {S} {{ {each.format(i + 1)} }}\n" for i in range(number))


_LAST = "func.func private @f{0}(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}"
_ONE = f"%0 = call @f{{}}(%a) : ({S}) -> {S} return %0 : {S}"
_TWO = f"%0 = call @f{{0}}(%a) : ({S}) -> {S} %1 = call @f{{0}}(%0) : ({S}) -> {S} return %1 : {S}"


def _nested(depth: int) -> str:
    text = "%x = stablehlo.sine %a : tensor<f32>\n"
    for number in range(depth):
        text = f'%{number} = "stablehlo.case"(%c) ({{ {text} "stablehlo.return"(%a) : ({S}) -> () }}) : ({I}) -> {S}\n'
    return _main(f"{text} return %a : {S}")


#: Text -> words of the error.
CASES: dict[str, tuple[str, str]] = {
    "nothing": ("", "the file is empty"),
    "no function": ("module {}", "has no function main (its functions: none)"),
    "several": (f"module {{ {_calls(2, f'return %a : {S}')} }}", "has no function main (its functions: f0, f1)"),
    "no text": ("\x08\x01", "no StableHLO that MLIR can read (line 1: "),
    "other dialect": (_main("%0 = linalg.abs %a : tensor<f32>"), "Dialect `linalg' not found"),
    "recursion": (_main(_ONE.format(0), more=_calls(1, _ONE.format(0))), "function 'f0' calls itself"),
    "chain": (_main(_ONE.format(0), more=_calls(300, _ONE) + _LAST.format(300)), "calls go deeper than 200"),
    "doubling": (_main(_ONE.format(0), more=_calls(50, _TWO) + _LAST.format(50)), "more than 100,000 operators beyond"),
    "deep": (_nested(80), "has regions in each other deeper than 64"),
    "jumps": (_main(f"cf.br ^bb1\n^bb1: return %a : {S}"), "jumps from block to block"),
    "huge argument": (
        f"module {{ func.func @main(%a: {HUGE}) -> {HUGE} {{ return %a : {HUGE} }} }}",
        "more elements than any memory",
    ),
    "huge constant": (
        _main(f"%0 = stablehlo.constant dense<1.0> : {HUGE} return %0 : {HUGE}", HUGE),
        "more elements than any memory",
    ),
    "open inside": (
        _main(f'%0 = "stablehlo.custom_call"(%a) {{call_target_name = "f"}} : ({S}) -> tensor<?xf32> return %a : {S}'),
        "a tensor of shape ? stays open at these sizes",
    ),
}


def _aliases(kind: str, first: str, each: str, number: int) -> str:
    """Names of a text, each for ten of the one before."""
    later = (f"{kind}{i} = {each.format(', '.join([f'{kind}{i - 1}'] * 10))}" for i in range(1, number))
    return "\n".join([f"{kind}0 = {first}", *later, ""])


_LATE, _ENDED = "decoding the module takes longer than a file of its size may", "MLIR's decoder ended on it"
_MANY = "has more than 2,000,000 operations and attributes"

#: Text on which the decoder ends or is ended -> words of the error.
ATTACKS: dict[str, tuple[str, str]] = {
    "attributes": (
        _aliases("#a", "[1]", "[{}]", 40) + _main(f"%0 = stablehlo.sine %a {{x = #a39}} : {S} return %0 : {S}"),
        f"{_LATE}|{_MANY}",  # whichever is first on a machine
    ),
    "types": (
        _aliases("!t", f"tuple<{S}>", "tuple<{}>", 30)
        + _main(f'%0 = "stablehlo.custom_call"(%a) {{call_target_name = "f"}} : ({S}) -> !t29 return %a : {S}'),
        "takes more memory than a file of its size may",
    ),
    "values": (
        f"#d = dense<[{', '.join(map(str, range(100_000)))}]> : tensor<100000xi64>\n"
        + _main("".join(f"%{i} = stablehlo.sine %a {{x = #d}} : {S}\n" for i in range(50)) + f"return %a : {S}"),
        _MANY,
    ),
    "regions": (_main("".join(f'%{i} = "stablehlo.case"(%c) ({{ ' for i in range(20_000))), _ENDED),
    "modules": ("module {" * 100_000, _ENDED),
    "number": (_main(f"%0 = stablehlo.sine %a {{x = {'9' * 100_000}}} : {S} return %0 : {S}"), _LATE),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_one_line_whatever_becomes_of_the_decoder(case: str, tmp_path: Path) -> None:
    text, words = ATTACKS[case]
    path = tmp_path / "m.mlir"
    path.write_text(text)
    with pytest.raises(flopwise.ModelError) as raised:
        flopwise.profile(path)
    assert any(word in str(raised.value) for word in words.split("|"))
    assert "\n" not in str(raised.value)


def _graph_of(module: dict[str, Any]) -> flopwise.Graph:
    return read.Reading(BytesSource(b" "), "m", module, read.arguments_of(module), StablehloOptions()).graph()


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(child: object, path: str, shapes: Any, size: int) -> dict[str, Any]:
        try:
            return decode.module_of(path, shapes)
        except Exception as error:
            raise flopwise.ModelError(f"no StableHLO that MLIR can read ({decode._line(error)})") from error

    monkeypatch.setattr(read, "_answer", answer)
    monkeypatch.setattr(read, "Child", lambda function: type("Child", (), {"end": lambda self: None})())
    text, words = CASES[case]
    path = tmp_path / "m.mlir"
    path.write_text(text)
    with pytest.raises(flopwise.ModelError) as raised:
        flopwise.profile(path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_a_few_changes_end_in_a_line_or_a_number(tmp_path: Path) -> None:
    """Those of what the decoder says of a module; the decoder itself is fuzzed in its own process (fuzz/targets.py)."""

    def function(x: Any) -> Any:
        x = lax.scan(lambda c, _: (c @ x, None), x, None, 10)[0]
        return lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME").sum() + lax.top_k(x, 2)[0].max()

    path = tmp_path / "m.mlir"
    path.write_text(jax.jit(function).lower(jax.ShapeDtypeStruct((4, 4), "float32")).as_text())
    module, chance = decode.module_of(str(path), None), random.Random(0)
    for _ in range(300):
        changed = copy.deepcopy(module)
        operations = changed["functions"]["main"]["region"][1]
        operation = chance.choice(operations)
        for key in list(operation[3]):
            if chance.random() < 0.5:
                operation[3][key] = chance.choice([-1, 2**63, [], "x", {}, None, [2**40] * 3])
        if chance.random() < 0.3 and operation[2]:
            operation[2][0][1] = [[2**40, 2**40], "f32"]
        try:
            flopwise.profile(_graph_of(changed)).to_dict()
        except flopwise.FlopwiseError as error:
            assert "\n" not in str(error)  # noqa: PT017
