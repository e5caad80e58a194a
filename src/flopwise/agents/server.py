"""The server: it lists the tools, calls them one at a time in a thread of their own, and says errors in one line."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flopwise._version import __version__
from flopwise.agents.tools import TOOLS
from flopwise.errors import InputError, did_you_mean, one_line

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from flopwise._results import Json

#: What the server says of itself to agents.
ABOUT = (
    "Exact costs of neural networks (MACs, FLOPs, parameters, memory, time) from files and configurations; "
    "nothing runs and nothing is written. Figures are exact unless coverage.exact is false."
)

#: Characters of a value in an error at most.
LONGEST = 200

#: flopwise counts one model at a time: modules are patched while they are read.
_ONE = threading.Lock()


def server(trust_code: bool = False) -> Server[object]:
    """The server, which any transport of the protocol can run.

    Args:
        trust_code: whether models may be code.

    Raises:
        InputError: the protocol's package is missing.
    """
    try:
        import mcp_types as types
        from mcp.server.lowlevel import Server
    except ImportError:
        raise InputError("a server for agents needs mcp, version 2 or newer: pip install 'flopwise[mcp]'") from None

    tools = [
        types.Tool(
            name=name,
            description=tool.about,
            input_schema=tool.schema,
            output_schema=tool.answers,
            annotations=types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True),
        )
        for name, tool in TOOLS.items()
    ]

    async def list_tools(context: object, parameters: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        call = functools.partial(_answer, parameters.name, parameters.arguments or {}, trust_code)
        document, error = await _in_thread(call)
        text = types.TextContent(type="text", text=error or json.dumps(document))
        return types.CallToolResult(content=[text], structured_content=document, is_error=bool(error))

    return Server("flopwise", version=__version__, instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool)


def serve(trust_code: bool = False) -> None:
    """Serve on standard input and output until the input ends; what is being computed then is given up.

    Args:
        trust_code: as for ``server``.

    Raises:
        InputError: as for ``server``.
    """
    ready = server(trust_code)
    import anyio
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await ready.run(reader, writer, ready.create_initialization_options())

    anyio.run(run)


def _answer(name: str, arguments: Mapping[str, object], trust_code: bool) -> tuple[Json | None, str]:
    """The document of a tool, or the one line of its error; whatever goes wrong, the server goes on."""
    try:
        if name not in TOOLS:
            near = did_you_mean(name, TOOLS)
            raise InputError(f"no tool {name!r}{near or '; tools: ' + ', '.join(TOOLS)}")
        values = {key: value for key, value in arguments.items() if value is not None}
        _check(name, values)
        with _ONE:
            return TOOLS[name].answer(values, trust_code), ""
    except (Exception, SystemExit) as error:
        return None, one_line(error)


def _check(name: str, values: Mapping[str, object]) -> None:
    """Raise InputError if arguments do not fit the schema of a tool.

    Raises:
        InputError: they do not; the message names the first that is wrong.
    """
    from jsonschema import Draft202012Validator

    schema = TOOLS[name].schema
    if strangers := [key for key in values if key not in schema["properties"]]:
        near = did_you_mean(strangers[0], schema["properties"])
        raise InputError(f"{name}: no argument {strangers[0]!r}{near}")
    for error in Draft202012Validator(schema).iter_errors(values):
        place = "".join(f"{key}: " for key in error.absolute_path)
        raise InputError(f"{name}: {place}{error.message[:LONGEST]}")


async def _in_thread(call: Callable[[], tuple[Json | None, str]]) -> tuple[Json | None, str]:
    """The result of a call, which the end of the process does not wait for."""
    import anyio
    from anyio.lowlevel import current_token

    done, token, results = anyio.Event(), current_token(), []

    def work() -> None:
        results.append(call())
        with contextlib.suppress(RuntimeError):  # the client is gone
            anyio.from_thread.run_sync(done.set, token=token)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    await done.wait()
    return results[0]
