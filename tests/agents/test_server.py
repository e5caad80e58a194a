"""The server of the Model Context Protocol, called by the protocol's own client: in memory, and as a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

from flopwise.agents.server import server
from flopwise.agents.tools import TOOLS

if TYPE_CHECKING:  # it takes a second to import, which no other test needs
    from mcp.client import Client
    from mcp_types import CallToolResult, Tool

pytestmark = pytest.mark.skipif(find_spec("mcp_types") is None, reason="could not import 'mcp_types'")

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "flopwise", "mcp"]

#: Calls of tools, and the command line of the same: all that is asked for in a folder with the examples.
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("profile", {"model": "tiny_resnet.onnx"}, "profile tiny_resnet.onnx"),
    (
        "profile",
        {"model": "transformer_block.onnx", "dims": {"batch": 2, "sequence": 16}, "convention": "fvcore", "by": "op"},
        "profile transformer_block.onnx --dim batch=2 --dim sequence=16 -c fvcore --by op",
    ),
    (
        "profile",
        {"model": "tiny_resnet.onnx", "train": True, "optimizer": "adam", "batch_size": None},
        "profile tiny_resnet.onnx --train --optimizer adam",
    ),
    (
        "compare",
        {"models": ["tiny_resnet.onnx", "alexnet.prototxt"]},
        "compare tiny_resnet.onnx alexnet.prototxt",
    ),
    (
        "compare",
        {"models": ["alexnet.prototxt"], "batch_sizes": [1, 8]},
        "compare alexnet.prototxt -b 1,8",
    ),
    (
        "compare",
        {"models": ["tiny_resnet.onnx"], "conventions": ["fvcore", "thop"]},
        "compare tiny_resnet.onnx -c fvcore -c thop",
    ),
    ("explain", {"what": "Conv", "conventions": ["thop"]}, "explain Conv -c thop"),
    ("explain", {"what": "tiny_resnet.onnx"}, "explain tiny_resnet.onnx"),
    (
        "explain",
        {"what": "tiny_resnet.onnx", "conventions": ["fvcore", "thop"], "by": "layer"},
        "explain tiny_resnet.onnx -c fvcore -c thop --by layer",
    ),
    ("trace", {"trace": "classifier_trace.json.gz", "step": "all"}, "trace classifier_trace.json.gz --step all"),
    ("memory", {"model": "tiny_resnet.onnx", "train": True}, "memory tiny_resnet.onnx --train"),
    (
        "bound",
        {"model": "tiny_resnet.onnx", "device": "rtx4090", "batch_size": 2},
        "bound tiny_resnet.onnx --device rtx4090 -b 2",
    ),
    ("llm", {"model": "tiny_llama", "prompt": 64, "device": "h100"}, "llm tiny_llama --prompt 64 --device h100"),
    ("llm_train", {"model": "tiny_llama", "prompt": 64, "batch": 2}, "llm tiny_llama --prompt 64 -b 2 --train"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "here", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def asked(transport: Any, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client is answered."""
    import anyio
    from mcp.client import Client

    async def talk() -> Any:
        async with Client(transport) as client:
            return await ask(client)

    return anyio.run(talk)


def called(name: str, arguments: dict[str, Any], trust_code: bool = False) -> CallToolResult:
    """The result of a tool, in memory."""
    result = asked(server(trust_code), lambda client: client.call_tool(name, arguments))
    from mcp_types import CallToolResult

    assert isinstance(result, CallToolResult)
    return result


def error(name: str, arguments: dict[str, Any], trust_code: bool = False) -> str:
    """The one line of a tool's error."""
    result = called(name, arguments, trust_code)
    assert result.is_error
    assert result.structured_content is None
    (text,) = result.content
    assert "\n" not in text.text
    return str(text.text)


def test_the_tools_say_that_they_only_read() -> None:
    tools: list[Tool] = asked(server(), lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.description is not None
        assert "\n" not in tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        Draft202012Validator.check_schema(tool.input_schema)
        assert all("description" in schema for schema in tool.input_schema["properties"].values())
        assert set(tool.input_schema["required"]) <= tool.input_schema["properties"].keys()


@pytest.mark.upstream
@pytest.mark.parametrize(("name", "arguments", "line"), CALLS, ids=[line for _, _, line in CALLS])
def test_documents_are_those_of_the_command_line(
    run: Run, folder: Path, name: str, arguments: dict[str, Any], line: str
) -> None:
    if name.startswith("llm"):
        pytest.importorskip("transformers")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    every = {"layers": 99} if TOOLS[name].lines else {}
    result = called(name, {**arguments, **every})
    assert not result.is_error, result.content
    assert result.structured_content == json.loads(run(*line.split(), "-f", "json").out)
    assert json.loads(result.content[0].text) == result.structured_content
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    if described := TOOLS[name].answers:
        Draft202012Validator(described).validate(result.structured_content)
        Draft202012Validator(described).validate(called(name, arguments).structured_content)


def test_a_long_answer_has_its_largest_layers_and_says_so(folder: Path) -> None:
    every = called("profile", {"model": "tiny_resnet.onnx", "layers": 54}).structured_content
    few = called("profile", {"model": "tiny_resnet.onnx", "layers": 3}).structured_content
    assert len(every["layers"]) == 54
    largest = sorted((layer["count"] for layer in every["layers"]), reverse=True)[:3]
    assert sorted((layer["count"] for layer in few["layers"]), reverse=True) == largest
    places = [every["layers"].index(layer) for layer in few["layers"]]
    assert places == sorted(places)
    assert few["notes"] == ["layers: 3 of 54, those of the largest count; layers=54 gives all"]
    assert {**few, "layers": every["layers"], "notes": []} == every
    assert len(called("profile", {"model": "tiny_resnet.onnx"}).structured_content["layers"]) == 20
    unknown = called("profile", {"model": "custom_op.onnx", "layers": 1}).structured_content
    assert unknown["layers"][0]["count"] is None


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("profile", {"model": "tiny_resnet.onx"}, "profile tiny_resnet.onx"),
        ("profile", {"model": "README.md"}, "profile README.md"),
        ("profile", {"model": "transformer_block.onnx"}, "profile transformer_block.onnx"),
        ("profile", {"model": "tiny_resnet.onnx", "convention": "fvcor"}, ""),
        ("trace", {"trace": "README.md"}, "trace tiny_resnet.onnx README.md"),
        ("explain", {"what": "Convv"}, "explain Convv"),
    ],
)
def test_errors_are_those_of_the_command_line(
    run: Run, folder: Path, name: str, arguments: dict[str, Any], line: str
) -> None:
    text = error(name, arguments)
    if line:
        assert f"flopwise: {text}\n" == run(*line.split()).err
    else:
        assert "did you mean 'fvcore'?" in text


@pytest.mark.parametrize("name", TOOLS)
def test_each_tool_names_the_file_that_it_cannot_read(folder: Path, name: str) -> None:
    with (folder / "huge.onnx").open("wb") as huge:
        huge.truncate(1 << 40)
    (folder.parent / "text").write_text("no model\n")
    (field, *others) = TOOLS[name].schema["required"]
    for file in ("none.onnx", "huge.onnx", "../text", ".."):
        arguments = {field: [file] if field == "models" else file, **dict.fromkeys(others, "h100")}
        assert error(name, arguments).startswith(f"{file}: ")


def test_arguments_that_do_not_fit(folder: Path) -> None:
    model = "tiny_resnet.onnx"
    assert error("profil", {}) == "no tool 'profil'; did you mean 'profile'?"
    assert error("profile", {}) == "profile: 'model' is a required property"
    assert error("profile", {"modle": model}) == "profile: no argument 'modle'; did you mean 'model'?"
    assert error("profile", {"model": 3}) == "profile: model: 3 is not of type 'string'"
    assert error("profile", {"model": model, "layers": -1}) == "profile: layers: -1 is less than the minimum of 0"
    assert error("explain", {"what": "Conv", "dims": {"N": 1}}) == "Conv: is an operator, which dims says nothing of"
    assert "two different conventions" in error("explain", {"what": model, "conventions": ["thop"]})
    both = {"models": [model, "alexnet.prototxt"], "conventions": ["flops", "macs"]}
    assert error("compare", both) == "compare one thing at a time, not several of models and conventions"


def test_code_runs_only_where_it_is_trusted(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    (folder / "net.py").write_text(
        "open('mark', 'w').close()\nimport torch\ndef model():\n    print('hello')\n    return torch.nn.Linear(4, 4)\n"
    )
    told = "is code, which runs only where the server was started with --trust-code"
    for name in ("net.py:model", "net:model", "net.py", "jax:net.model", f"{folder}/net.py:model"):
        assert error("profile", {"model": name}) == f"{name}: {told}"
        assert error("llm", {"model": name}) == f"{name}: {told}"
        assert error("explain", {"what": name}) == f"{name}: {told}"
        assert error("compare", {"models": ["tiny_resnet.onnx", name]}) == f"{name}: {told}"
        assert error("trace", {"trace": "classifier_trace.json.gz", "model": name}) == f"{name}: {told}"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(4, 4), torch.zeros(1, 4)), folder / "script.pt")
    script = {"model": "script.pt", "inputs": ["1x4"]}
    assert "--trust-code" in error("profile", script)
    assert not (folder / "mark").exists()
    assert called("profile", script, trust_code=True).structured_content["totals"]["macs"] == 16
    assert called("profile", {**script, "model": "net.py:model"}, trust_code=True).structured_content["totals"] == {
        **called("profile", script, trust_code=True).structured_content["totals"]
    }
    assert not called("profile", {"model": "tiny_resnet.onnx"}, trust_code=True).is_error


def test_a_bug_is_one_line_and_the_server_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setitem(TOOLS, "profile", TOOLS["profile"]._replace(report=fail))
    assert error("profile", {"model": "a.onnx"}).startswith("a bug in flopwise: ZeroDivisionError: by zero; ")

    async def ask(client: Client) -> Any:
        await client.call_tool("profile", {"model": "a.onnx"})
        return await client.call_tool("explain", {"what": "Conv"})

    assert asked(server(), ask).structured_content["operator"] == "Conv"


@pytest.mark.upstream
def test_a_process_prints_the_protocol_alone(folder: Path) -> None:
    """Whatever the code of a model prints, and from however many calls at once."""
    pytest.importorskip("torch")
    import anyio
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (folder / "net.py").write_text(
        "import os, torch\ndef model():\n    print('hello')\n    os.system('echo shell')\n"
        "    return torch.nn.Linear(4, 4)\n"
    )
    parameters = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "--trust-code"], env=dict(os.environ))
    results: list[CallToolResult] = []

    async def ask(client: Client) -> None:
        async def call(name: str, arguments: dict[str, Any]) -> None:
            results.append(await client.call_tool(name, arguments))

        async with anyio.create_task_group() as group:
            group.start_soon(call, "profile", {"model": "net.py:model", "inputs": ["1x4"]})
            group.start_soon(call, "explain", {"what": "Conv"})
            group.start_soon(call, "profile", {"model": "tiny_resnet.onnx"})
            group.start_soon(call, "profile", {"model": "none.onnx"})

    asked(stdio_client(parameters, errlog=sys.__stderr__), ask)
    assert sorted(result.is_error for result in results) == [False, False, False, True]


def _spoken(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


HELLO = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    },
    {"method": "notifications/initialized"},
]


def _lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in [*HELLO, *messages])


def test_what_is_no_protocol_is_no_end(folder: Path) -> None:
    text = "garbage\n" + _lines({"id": 2, "method": "ping"}, {"id": 3, "method": "tools/list"})
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.flush()
    spoken = _spoken("".join(process.stdout.readline() for _ in range(3)))
    assert {1, 2, 3} >= {message.get("id") for message in spoken} - {None}
    process.stdin.close()
    assert process.wait(20) == 0
    assert all(message["jsonrpc"] == "2.0" for message in [*spoken, *_spoken(process.stdout.read())])


@pytest.mark.skipif(os.name != "posix", reason="ends processes by signals")
def test_the_process_ends_with_its_parent_in_the_middle_of_a_call(folder: Path) -> None:
    (folder / "net.py").write_text("open('begun', 'w').close()\nimport time\ntime.sleep(600)\n")
    call = {"id": 2, "method": "tools/call", "params": {"name": "profile", "arguments": {"model": "net.py:model"}}}
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({[*COMMAND, '--trust-code']!r}, stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        f"child.stdin.write({_lines(call)!r}.encode())\n"
        "child.stdin.flush()\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        _until((folder / "begun").exists)
    finally:
        process.kill()
        process.wait()
    _until(lambda: not _runs(child))


@pytest.mark.skipif(os.name != "posix", reason="ends processes by signals")
def test_an_interrupt_is_one_line(folder: Path) -> None:
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(_lines())
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == "flopwise: interrupted\n"


def _until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def _runs(number: int) -> bool:
    """True where a process is there and not only waiting to be collected."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_package_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    code, out, err = run("mcp")
    assert (code, out) == (2, "")
    assert err == "flopwise: a server for agents needs mcp, version 2 or newer: pip install 'flopwise[mcp]'\n"


def test_the_tools_in_words(run: Run) -> None:
    code, out, err = run("mcp", "--tools")
    assert (code, err) == (0, "")
    assert [line.partition(":")[0] for line in out.splitlines()[::2]] == list(TOOLS)
