"""The same errands in any environment: one for each extra of pyproject.toml and each model format.

``python .ci/errands.py OUT.json`` writes what each printed, without numbers of versions. ``python .ci/errands.py A.json
B.json`` prints what differs between two environments, with status 1 where something does.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "formats"

#: Architectures whose caches transformers makes in ways of their own, as small as they can be.
_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96, "dtype": "bfloat16"}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 96},
    "gemma3": {"model_type": "gemma3_text", **_SMALL, "intermediate_size": 128, "head_dim": 16, "sliding_window": 16},
    "mamba": {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 96},
    "jamba": {"model_type": "jamba", **_SMALL, "intermediate_size": 128, "attn_layer_offset": 1, "attn_layer_period": 2}
    | {"num_key_value_heads": 2, "num_experts": 4},
    "qwen3_next": {"model_type": "qwen3_next", **_SMALL, "intermediate_size": 128, "num_experts": 4, "head_dim": 16}
    | {"layer_types": ["linear_attention", "full_attention"], "num_key_value_heads": 2, "moe_intermediate_size": 32}
    | {"num_experts_per_tok": 2, "shared_expert_intermediate_size": 32},
    "deepseek_v3": {"model_type": "deepseek_v3", **_SMALL, "intermediate_size": 128, "n_routed_experts": 8}
    | {"n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "kv_lora_rank": 16}
    | {"q_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4},
    "t5": {
        "model_type": "t5",
        "d_model": 64,
        "num_layers": 2,
        "num_heads": 4,
        "d_ff": 128,
        "d_kv": 16,
        "vocab_size": 96,
    },
}

_STEP = "--prompt 48 --generate 16 --device h100 -f json"

#: Name -> a command line in a folder with the examples.
COMMANDS = {
    "torch: an image model": "profile torchvision.models:resnet18 -i 1x3x64x64 -f json",
    "torch: training": "memory classifier.py:Classifier -i 8x3x32x32 --train --optimizer adam -f json",
    "torch: an exported program": "profile net.pt2 -f json",
    "torch: TorchScript": "profile net.pt -i 1x3x16x16 --trust-code -f json",
    "torch: timm": "profile timm:resnet18 -i 1x3x64x64 --by op -f json",
    "torch: ONNX of an exporter": "profile net.onnx -f json",
    "llm": f"llm tiny_llama {_STEP}",
    "llm: a mixture of experts": f"llm tiny_moe {_STEP}",
    "llm: an encoder": "llm tiny_bert --device h100 -f json",
    "llm: a step": "profile tiny_llama --past 128 -f json",
    "llm: formula of a step": "formula tiny_llama --past past -f json",
    "llm: training": "llm tiny_llama --train --device h100 -f json",
    **{f"llm: {name}": f"llm {name} {_STEP}" for name in CONFIGS},
    "gguf": f"llm model.gguf {_STEP}",
    "images": "llm tiny_vlm --image 256x192 --prompt 64 --generate 16 -f json",
    "diffusion": "llm tiny_diffusion --steps 4 --size 128x128 --device h100 -f json",
    "jax": "profile jax_networks.py:training_step -f json",
    "keras": "profile keras:keras_networks.py:digits -f json",
    "keras: a file": "profile digits.keras -f json",
    "h5: a file of Keras": "profile digits.h5 -f json",
    "h5: weights": "weights digits.h5 -f json",
    "symbolic": "formula tiny_resnet.onnx -i N,3,H,W -f json",
    "budget": "check tiny_resnet.onnx --budget budget.toml",
    "fast": "sparsity tiny_resnet.onnx -f json",
    "zoo": "zoo query zoo 'SELECT family, macs, params FROM models ORDER BY macs' -f csv",
    "onnx": "profile transformer_block.onnx --dim batch=2 --dim sequence=8 -f json",
    "caffe": "profile alexnet.prototxt -f json",
    "tensorflow: a frozen graph": "profile frozen.pb -f json",
    "tensorflow: a SavedModel": "profile saved -f json",
    "executorch": "profile network.pte -f json",
    "stablehlo": "profile net.mlir -f json",
    "conventions": "explain torchvision.models:resnet18 -i 1x3x64x64 -c fvcore -c thop",
    "trace": "trace classifier_trace.json.gz -f json",
    "advice": "advise tiny_resnet.onnx -f json",
}


def _staged(folder: Path) -> None:
    """The files that the errands name, those of other libraries written by them."""
    import jax
    import onnx
    import torch
    from tests.formats.torch.language.test_gguf import made

    shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
    for source in ("tensorflow/data/frozen.pb", "executorch/data/network.pte"):
        shutil.copy(DATA / source, folder)
    shutil.copytree(DATA / "tensorflow/data/saved", folder / "saved")
    for name, config in CONFIGS.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    (folder / "budget.toml").write_text('[model]\nmacs = "2 M"\nparams = "50 k"\n')
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1568, 4))
    x = torch.zeros(1, 3, 16, 16)
    torch.export.save(torch.export.export(net.eval(), (x,)), folder / "net.pt2")
    torch.jit.trace(net, x).save(str(folder / "net.pt"))
    torch.onnx.export(net, (x,), folder / "net.onnx", verbose=False)
    onnx.checker.check_model(folder / "net.onnx")
    made(folder / "model.gguf")
    text = jax.jit(lambda a, b: jax.numpy.tanh(a @ b)).lower(jax.numpy.zeros((4, 8)), jax.numpy.zeros((8, 2))).as_text()
    (folder / "net.mlir").write_text(text)
    sys.path.insert(0, str(folder))
    import keras
    import keras_networks

    model = keras_networks.digits()
    for weight in model.weights:
        weight.assign(keras.ops.ones_like(weight) / 8)
    model.save(folder / "digits.keras")
    model.save(folder / "digits.h5")
    (folder / "models").mkdir()
    for name in ("tiny_resnet.onnx", "alexnet.prototxt"):
        shutil.copy(ROOT / "examples" / name, folder / "models")
    _printed("zoo build models -o zoo -j 1")


def _printed(line: str) -> str:
    """What a command prints, and its status."""
    import shlex

    from flopwise.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(shlex.split(line))
    errors = "\n".join(line for line in err.getvalue().splitlines() if "Warning" not in line) if status else ""
    return f"status {status}\n{out.getvalue()}{errors}"


def _frame() -> str:
    import flopwise

    return str(flopwise.profile("tiny_resnet.onnx").to_pandas().to_csv())


def _arrow() -> str:
    import polars
    import pyarrow.parquet

    _printed("profile tiny_resnet.onnx -o rows.parquet")
    table = pyarrow.parquet.read_table("rows.parquet")
    schema, rows = table.schema.to_string(show_schema_metadata=False), polars.read_parquet("rows.parquet").rows()
    return f"{schema}\n{table.to_pylist()}\n{rows}"


def _workbook() -> str:
    _printed("profile tiny_resnet.onnx -o rows.xlsx")
    with zipfile.ZipFile("rows.xlsx") as book:
        return "\n".join(book.read(name).decode() for name in sorted(book.namelist()) if "/sheet" in name)


def _figure() -> str:
    status = _printed("llm tiny_llama --prompt 64 --generate 8 --figures figures").partition("\n")[0]
    return f"{status} {sorted(path.name for path in Path('figures').iterdir())}"


def _remote() -> str:
    import fsspec

    import flopwise

    with fsspec.open("memory://tiny.onnx", "wb") as file:
        file.write(Path("tiny_resnet.onnx").read_bytes())
    return json.dumps(flopwise.profile("memory://tiny.onnx").to_dict()["totals"])


def _mcp() -> str:
    import asyncio

    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def ask() -> str:
        server = StdioServerParameters(command=sys.executable, args=["-m", "flopwise", "mcp"], env=dict(os.environ))
        async with Client(stdio_client(server, errlog=sys.__stderr__)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("profile", {"model": "tiny_resnet.onnx"})
            return f"{tools}\n{[part.model_dump_json() for part in answer.content]}"

    return asyncio.run(ask())


def _measured() -> str:
    """How many of an engine's nodes are measured, without the times."""
    result = json.loads(_printed("bench tiny_resnet.onnx --time 0.2 -f json").partition("\n")[2])
    return f"{sorted(result)} {result['coverage']}"


CALLS: dict[str, Callable[[], str]] = {
    "pandas": _frame,
    "arrow": _arrow,
    "xlsx": _workbook,
    "figures": _figure,
    "remote": _remote,
    "mcp": _mcp,
    "time": _measured,
}

#: Numbers of versions.
_VERSION = re.compile(r"\b\d+\.\d+\.\d+[\w.+]*")


def answers() -> dict[str, str]:
    """What each errand answers, or why it fails."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # the same source in both, whatever is installed
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    import tests.torch_vision  # noqa: F401 # before a model of transformers asks for it

    result: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLOPWISE_STORE"] = os.path.join(folder, "times.sqlite")
        os.chdir(folder)
        _staged(Path(folder))
        commands = {name: lambda line=line: _printed(line) for name, line in COMMANDS.items()}
        for name, call in {**commands, **CALLS}.items():
            try:
                text = call()
            except Exception as error:
                text = f"failed: {type(error).__name__}: {error}"
            result[name] = _VERSION.sub("VERSION", text.replace(folder, "FOLDER"))
        os.chdir(ROOT)
    return result


def differences(pinned: dict[str, str], newest: dict[str, str]) -> list[str]:
    """What differs, a few lines for each errand; an errand that failed in both is one too."""
    lines = []
    for name in sorted({*pinned, *newest}):
        one, other = (each.get(name, "") for each in (pinned, newest))
        if one != other:
            changed = list(
                difflib.unified_diff(one.splitlines(), other.splitlines(), "pinned", "newest", "", "", 0, "")
            )
            lines += [f"{name}: the answers differ", *(f"    {line[:300]}" for line in changed[2:14])]
        elif one.startswith("failed") or (one.startswith("status") and not one.startswith("status 0")):
            lines += [f"{name}: fails in both", f"    {one[:300]}"]
    return lines


if __name__ == "__main__":
    if len(sys.argv) == 3:
        different = differences(*(json.loads(Path(path).read_text()) for path in sys.argv[1:]))
        print("\n".join(different) or "every answer is the pinned one")
        sys.exit(bool(different))
    where = Path(sys.argv[1]).absolute()
    where.write_text(json.dumps(answers(), indent=1))
    print(f"{where.name}: {len(COMMANDS) + len(CALLS)} errands; transformers {metadata.version('transformers')}")
