"""How much of recorded time lands on the rows of eight models: python benchmarks/trace_shares.py [--model NAME ...].

Each model is recorded by PyTorch's profiler as a program runs it ("eager"), compiled with the events of its kernels
("compiled"), and in steps of training, eager and compiled, and its export by onnxruntime's at four levels, on one
thread of this machine: as the exporter writes it, as the older one did, quantised to QDQ, and without the names of its
nodes. Language models also generate one token with a cache of 63. Of each: the rows that have time, the share of the
products' time on them, that of all time on rows and segments, that with a name beside these, and the share of the
backward pass on rows, where the rest is the loss, the sum of gradients, or unmatched. Gaps do not count. The bar is
0.99 with names, and every product on its row; of all time on rows 0.94 (older exporter), 0.97 (QDQ), 0.85 (no names).

With ``--device cuda`` the same on a GPU (not by onnxruntime), "graphs" are steps compiled into CUDA graphs, with and
without a trace of their capture, and the last columns say how the time of rows stands to the floors of that GPU: rows
with a floor, those below theirs, and the time of all in floors. ``--keep FOLDER`` keeps the traces.

"annotate" says how much ``flopwise.annotate`` costs: its calls in a step, each with and without a profiler, of the
thread's time of that step; the bar is 1 % without.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flopwise
from flopwise.analyses.traces.trace import Trace

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from tests.analyses.traces.kineto.recording import inference, record
from tests.torch_vision import torchvision
from torch import nn

LEVELS = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}

#: Ways to export a model for onnxruntime.
EXPORTS = ("onnxruntime", "older exporter", "qdq", "nameless")

#: Seeds of the inputs; pictures of 224 pixels, 64 tokens.
PICTURES, TOKENS = (1, 3, 224, 224), (1, 64)


class Classifier(nn.Module):
    """Tokens, two recurrent layers in both directions, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 256)
        self.lstm = nn.LSTM(256, 256, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(512, 1000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.lstm(self.words(tokens))[0][:, -1])
        return logits


class Logits(nn.Module):
    """The logits of a model of transformers, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens, use_cache=False).logits[:, -1]
        return logits


def _bert() -> nn.Module:
    import transformers

    config = transformers.BertConfig(
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048
    )
    return transformers.BertForSequenceClassification(config)


class Scores(nn.Module):
    """The scores of a classifier of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.model(tokens).logits
        return scores


def llama() -> Any:
    """A language model of the shape of Llama, four layers of it."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
    )
    return transformers.LlamaForCausalLM(config)


def _vision(name: str) -> Callable[[], nn.Module]:
    return lambda: getattr(torchvision.models, name)(weights=None)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet50": (_vision("resnet50"), PICTURES),
    "mobilenet_v2": (_vision("mobilenet_v2"), PICTURES),
    "densenet121": (_vision("densenet121"), PICTURES),
    "shufflenet_v2": (_vision("shufflenet_v2_x1_0"), PICTURES),
    "vit_b_16": (_vision("vit_b_16"), PICTURES),
    "bert": (lambda: Scores(_bert()), TOKENS),
    "llama": (lambda: Logits(llama()), TOKENS),
    "lstm": (Classifier, TOKENS),
}


#: Ways of training and of running, each compiled or not.
PROGRAMS = {
    "eager": None,
    "training": None,
    "compiled": "default",
    "compiled training": "default",
    "graphs": "reduce-overhead",
    "graphs training": "reduce-overhead",
}


def _input(shape: tuple[int, ...], device: str = "cpu") -> torch.Tensor:
    return (torch.randn(shape) if len(shape) == 4 else torch.randint(0, 1000, shape)).to(device)


def _training(model: nn.Module, run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(run(x), labels).backward()
        optimizer.step()

    return step


def _traces(
    name: str, ways: list[str], folder: Path, device: str, batch: int, dtype: str | None
) -> Iterator[tuple[str, Trace]]:
    """What was recorded of a model, on its rows."""
    make, shape = MODELS[name]
    path = folder / "t.json"
    for way in ways:
        torch._dynamo.reset()
        trains = way.endswith("training")
        model = make().train(trains).to(device)
        x = torch.cat([_input(shape, device)] * (2 * batch if trains else batch))
        if way in EXPORTS:
            yield from _onnxruntime(model, x, folder, way)
        elif way == "decode":
            if name == "llama":
                yield way, _decode(path, device)
        else:
            mode = PROGRAMS[way]
            run = torch.compile(model, mode=mode) if mode else model
            if dtype:
                run = torch.autocast(device, getattr(torch, dtype))(run.forward)
            step = _training(model, run, x) if trains else inference(run, x)  # type: ignore[arg-type]
            beside = []
            if way.startswith("graphs"):  # compiled and run, captured, replayed
                beside = [record(folder / "capture.json", step, steps=3, marks=False)]
            for _ in range(3):
                step()
            recorded = record(path, step, steps=3)
            yield way, flopwise.trace(model, recorded, x, step="all", beside=beside)
            if beside:
                yield f"{way}, no capture", flopwise.trace(model, recorded, x, step="all")


def _decode(path: Path, device: str) -> Trace:
    """One token with a cache of 63."""
    model = llama().eval().to(device)
    tokens = torch.zeros(1, 64, dtype=torch.long, device=device)

    def run(tokens: torch.Tensor, cache: object = None) -> Any:
        with torch.no_grad():
            return model(tokens, past_key_values=cache, use_cache=True)

    caches = [run(tokens[:, 1:]).past_key_values for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        record(path, lambda: run(tokens[:, :1], caches.pop()) and None, steps=3)
        return flopwise.trace(folder, path, past=63, new=1, step="all")


def _onnxruntime(model: nn.Module, x: torch.Tensor, folder: Path, way: str) -> Iterator[tuple[str, Trace]]:
    import onnxruntime as ort

    path = folder / "model.onnx"
    torch.onnx.export(model, (x,), str(path), dynamo=way != "older exporter", verbose=False, external_data=False)
    if way == "qdq":
        _quantise(path, x)
    counted = flopwise.profile(str(path))
    if way == "nameless":
        import onnx

        exported = onnx.load(path)
        for node in exported.graph.node:
            node.ClearField("name")
        onnx.save(exported, path)
    for level, constant in LEVELS.items():
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / level)
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{constant}")
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for _ in range(4):
            session.run(None, {session.get_inputs()[0].name: x.numpy()})
        short = {"onnxruntime": "ort", "older exporter": "older"}.get(way, way)
        yield f"{short} {level}", flopwise.trace(counted, session.end_profiling(), step="all")


def _quantise(path: Path, x: torch.Tensor) -> None:
    """Put QuantizeLinear and DequantizeLinear around the products of a file."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Picture(CalibrationDataReader):  # type: ignore[misc] # without types
        def __init__(self, name: str) -> None:
            self._feeds = iter([{name: x.numpy()}])

        def get_next(self) -> Any:
            return next(self._feeds, None)

    import onnx

    name = onnx.load(path).graph.input[0].name
    quantize_static(str(path), str(path), Picture(name), quant_format=QuantFormat.QDQ)


def _cost_of_annotating(name: str) -> str:
    """The calls of modules in a step, and what the ranges around them take of its time."""
    make, shape = MODELS[name]
    model, x, calls = make().eval(), _input(shape), 0

    def count(*arguments: object) -> None:
        nonlocal calls
        calls += 1

    hooks = [module.register_forward_hook(count) for module in model.modules()]
    step = inference(model, x)
    step()
    for hook in hooks:
        hook.remove()
    seconds = min(_seconds(step) for _ in range(5))
    layer = nn.Identity()

    def each(number: int = 2000) -> float:
        return _seconds(lambda: [layer(x) for _ in range(number)]) / number

    plain = min(each() for _ in range(9))
    with flopwise.annotate(layer):
        ranged = min(each() for _ in range(9))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            recorded = min(each() for _ in range(3))
    costs = [1e6 * (cost - plain) for cost in (ranged, recorded)]
    share = calls * (ranged - plain) / seconds
    return (
        f"{name:14} annotate: {calls} calls of {costs[0]:.2f} us ({costs[1]:.2f} us while they are recorded), "
        f"{share:.2%} of {1e3 * seconds:.1f} ms"
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _line(name: str, way: str, trace: Trace) -> str:
    """What landed where; the sum is checked by ``Trace`` itself."""
    landed = (trace.rows_ns + trace.segments_ns) / trace.busy_ns
    named = 1 - trace.remainder.get("unmatched", 0) / trace.busy_ns
    parts = [*trace.rows, *trace.segments]
    backward = sum(part.time_ns or 0 for part in parts if part.phase == "backward")
    lost = sum(
        moment.end_ns - moment.start_ns
        for moment in trace.timeline
        if not moment.phase and moment.where == "unmatched" and "ackward" in moment.kernel
    )
    back = f"{backward / (backward + lost):8.4f}" if backward else f"{'':8}"
    share = trace.matched.product_time_share
    rest = {key: round(time / trace.busy_ns, 4) for key, time in trace.remainder.items() if key != "gaps"}
    return (
        f"{name:14} {way:18} {trace.matched.rows:4} of {trace.matched.of:4} {1 if share is None else share:8.4f} "
        f"{landed:8.4f} {named:8.4f} {back}  {rest}{_floors(trace)}"
    )


def _floors(trace: Trace) -> str:
    """The rows whose time is below the floor of the device."""
    floored = [(row.time_ns, row.floor_ns) for row in trace.rows if row.time_ns and row.floor_ns]
    if not floored:
        return ""
    below = sum(time < floor for time, floor in floored)
    times = sum(time for time, _ in floored) / sum(floor for _, floor in floored)
    return f"  {below} of {len(floored)} below floors, {times:.2f} floors"


def _kept(path: Path, folder: Path | None, name: str) -> None:
    """Pack the trace of a model into a folder."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as trace, gzip.open(folder / f"{name}.json.gz".replace(" ", "_"), "wb") as packed:
            shutil.copyfileobj(trace, packed)


def main() -> None:
    """Record and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = [*PROGRAMS, "decode", *EXPORTS, "annotate"]
    usual = [way for way in ways if not way.startswith("graphs")]
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--way", nargs="+", choices=ways, default=usual)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", help="train and run under autocast in this type")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch._inductor.config.cpp.enable_kernel_profile = True  # type: ignore[attr-defined]
    print(f"{'model':14} {'recorded':18} {'rows':12} products   landed    named backward  remainder")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.model:
            if "annotate" in options.way:
                print(_cost_of_annotating(name), flush=True)
            for recorded in [way for way in options.way if way != "annotate"]:
                of = (options.device, options.batch, options.dtype)
                try:
                    for way, trace in _traces(name, [recorded], Path(folder), *of):
                        print(_line(name, way, trace), flush=True)
                except Exception as error:  # the others are still worth their time
                    print(f"{name:14} {recorded:18} {type(error).__name__}: {error}", flush=True)
                for file in Path(folder).glob("[ct]*.json"):
                    _kept(file, options.keep, f"{name}-{recorded}-{file.stem}")
                    file.unlink()


if __name__ == "__main__":
    main()
