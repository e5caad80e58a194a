"""The meter in trainings on a device: what it adds to a step, and its figures beside those of others.

    PYTHONPATH=src python benchmarks/meter_training.py [--device cuda] [--small] [--limit SECONDS] [NAME ...]

Formulas are derived and models compiled first, each in a process of its own, all at once; these compare the meter with
``profile(train=True)`` for five random shapes. Then one model after another is trained: steps without the meter, with
it and with a meter that is timed take turns, first each step awaited, then blocks of ten of which the last one is.
``FlopCounterMode`` of PyTorch counts the products of the same step (of the way back of grouped convolutions too many).
Last, transformers' and Lightning's trainers run for twenty steps, and the values that they logged are read back.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from tests.torch_vision import torchvision
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import flopwise
from flopwise.integrations.steps import Steps

#: Dense FLOP/s of an H100 SXM in bfloat16, of NVIDIA's datasheet: the denominator beside the meter's own.
H100 = 989.4e12

#: Steps of a block whose end alone is awaited.
BLOCK = 10


@dataclass(frozen=True)
class Place:
    """The device, and whether models and batches are small, to try the script out."""

    device: str
    small: bool

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def autocast(self, rounds: bool) -> contextlib.AbstractContextManager[Any]:
        """Products in bfloat16, where a model's weights are not; many CPUs would take seconds for them."""
        return torch.autocast(self.device, torch.bfloat16, enabled=rounds and self.device == "cuda")


@dataclass
class Case:
    """A model, its batches and how it is trained."""

    model: Any
    #: Of a chance: a batch of random sizes. Of None: the batch of the training.
    batch: Callable[[random.Random | None], Any]
    #: Whether autocast rounds its products.
    rounds: bool


def _sizes(chance: random.Random | None, place: Place, *whole: int) -> list[int]:
    """The sizes of a batch: random ones up to the whole ones, or these."""
    sizes = [max(2, size // 16) for size in whole] if place.small else list(whole)
    return [chance.randint(2, size) for size in sizes] if chance else sizes


def _vision(name: str, batch: int) -> Callable[[Place], Case]:
    def case(place: Place) -> Case:
        model = getattr(torchvision.models, name)().to(place.device, memory_format=torch.channels_last)

        def images(chance: random.Random | None) -> Any:
            (number,) = _sizes(chance, place, batch)
            side = chance.randint(40, 80 if place.small else 224) if chance else 64 if place.small else 224
            image = torch.rand(number, 3, side, side, device=place.device)
            return [image.contiguous(memory_format=torch.channels_last)]

        return Case(model, images, True)

    return case


def _tokens(place: Place, batch: int, length: int, mask: bool = False) -> Callable[[random.Random | None], Any]:
    def tokens(chance: random.Random | None) -> Any:
        ids = torch.randint(5, 1000, _sizes(chance, place, batch, length), device=place.device)
        masks = {"attention_mask": torch.ones_like(ids)} if mask else {}
        return {"input_ids": ids, "labels": ids.clone(), **masks}

    return tokens


def _bert(place: Place) -> Case:
    import transformers

    sizes = {"num_hidden_layers": 2, "hidden_size": 96} if place.small else {}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).to(place.device)
    return Case(model, _tokens(place, 32, 128, mask=True), True)


def _llama(place: Place, layers: int, width: int, inner: int) -> Any:
    import transformers

    if place.small:
        layers, width, inner = 2, 128, 256
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 128,
        vocab_size=1000 if place.small else 32000,
        use_cache=False,
    )
    with torch.device(place.device):
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def _decoder(place: Place) -> Case:
    """About a billion parameters."""
    return Case(_llama(place, 8, 3072, 8192), _tokens(place, 4, 1024), False)


class _Adapted(nn.Module):
    """A linear layer that is frozen, and two small ones that are not."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        place = {"device": linear.weight.device, "dtype": linear.weight.dtype, "bias": False}
        self.linear = linear
        self.down: nn.Module = nn.Linear(linear.in_features, rank, **place)
        self.up: nn.Module = nn.Linear(rank, linear.out_features, **place)

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.up(self.down(x))


def _lora(place: Place) -> Case:
    """A decoder with adapters of peft's, or the like where it is not installed."""
    model = _llama(place, 6, 2048, 5632).requires_grad_(False)
    try:
        import peft

        config = peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, config)
    except ImportError:
        for layer in model.model.layers:
            for name in ("q_proj", "v_proj"):
                setattr(layer.self_attn, name, _Adapted(getattr(layer.self_attn, name), 16))
    return Case(model, _tokens(place, 4, 1024), False)


CASES: dict[str, Callable[[Place], Case]] = {
    "resnet50": _vision("resnet50", 64),
    "bert-base": _bert,
    "llama-1b": _decoder,
    "mobilenet_v2": _vision("mobilenet_v2", 128),
    "lora": _lora,
}

#: Models that are trained compiled as well.
COMPILED = ("resnet50", "llama-1b")


def arguments(batch: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call."""
    return (batch, {}) if isinstance(batch, list) else ([], batch)


def training(case: Case, model: Any, place: Place) -> Callable[[], None]:
    """A step of a training, which is not awaited."""
    args, kwargs = arguments(case.batch(None))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, 1e-5, fused=place.device == "cuda")

    def step() -> None:
        with place.autocast(case.rounds):
            result = model(*args, **kwargs)
            loss = result.loss if hasattr(result, "loss") else result.float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def prepare(name: str, place: Place) -> None:
    """Derive and keep the formula of a model, compare it with profiles, and compile the model."""
    case, chance = CASES[name](place), random.Random(name)
    start = time.perf_counter()
    with place.autocast(case.rounds):
        meter = flopwise.Meter(case.model, case.batch(None))
        seconds, wrong, ways = time.perf_counter() - start, [], []
        for _ in range(5):
            batch = case.batch(chance)
            cost = meter.step(batch)
            profile = flopwise.profile(case.model, batch, train=True)
            truth = profile.total("flops") + profile.total("backward_flops")
            ways.append(cost.how)
            if cost.flops != truth:
                shapes = [tuple(tensor.shape) for part in arguments(batch) for tensor in _values(part)]
                wrong.append(f"{shapes}: step {cost.flops}, profile {truth}")
    by_formula = ways.count("formula")
    print(
        f"exact    {name:14} first batch {seconds:5.1f} s; 5 random shapes: {len(wrong)} wrong, {by_formula} by formula"
        f"  {'; '.join((*wrong, *meter.notes))}",
        flush=True,
    )
    if name in COMPILED:
        start = time.perf_counter()
        training(case, torch.compile(case.model), place)()
        place.synchronize()
        print(f"compiled {name:14} in {time.perf_counter() - start:.1f} s", flush=True)


def _values(part: Any) -> Any:
    return part.values() if isinstance(part, dict) else part


def measure(name: str, place: Place, compiled: bool, seconds: float) -> None:
    """Print what a meter adds to the steps of a training, and what it says of them."""
    label = f"{name}{' compiled' if compiled else ''}"
    case = CASES[name](place)
    model = torch.compile(case.model) if compiled else case.model
    with place.autocast(case.rounds):
        meter = flopwise.Meter(model, case.batch(None))
    steps, step = Steps(meter), training(case, model, place)
    steps.start()
    ((key, watch),) = model._forward_pre_hooks.items()
    inside: list[float] = []

    def timed(*given: Any) -> None:
        start = time.perf_counter()
        watch(*given)
        inside.append(time.perf_counter() - start)

    hooks: dict[str, Any] = {"plain": None, "meter": watch, "timed": timed}

    def run(kind: str, number: int) -> float:
        """Seconds of a step, of so many whose last one is awaited."""
        model._forward_pre_hooks.clear()
        if hooks[kind] is not None:
            model._forward_pre_hooks[key] = hooks[kind]
        place.synchronize()
        start = time.perf_counter()
        for _ in range(number):
            step()
        place.synchronize()
        return (time.perf_counter() - start) / number

    for kind in ("plain", "meter", "timed") * 3:
        run(kind, 2)
    for way, number in (("each awaited", 1), ("10 at a time", BLOCK)):
        inside.clear()
        times: dict[str, list[float]] = {kind: [] for kind in hooks}
        kinds, end = [*hooks], time.perf_counter() + seconds / 2
        while time.perf_counter() < end or len(times["plain"]) < 5:
            for kind in kinds:
                times[kind].append(run(kind, number))
            kinds = [*kinds[1:], kinds[0]]
        plain, with_meter = (statistics.median(times[kind]) * 1e3 for kind in ("plain", "meter"))
        more, spread = _longer(times["meter"], times["plain"])
        own = statistics.median(inside) * 1e6
        print(
            f"overhead {label:20} {way}: {plain:8.3f} ms without, {with_meter:8.3f} with; longer by {more:6.1f} +- "
            f"{spread:.1f} us ({more / plain / 10:.3f} +- {spread / plain / 10:.3f} %) in {len(times['plain'])} turns; "
            f"the hook itself {own:.1f} us ({own / plain / 10:.3f} %), at most {max(inside) * 1e6:.0f} us",
            flush=True,
        )
    model._forward_pre_hooks[key] = watch
    steps.figures()
    seconds_each = run("meter", 2 * BLOCK)
    figures = steps.figures()
    steps.stop()
    args, kwargs = arguments(case.batch(None))
    plainly = sdpa_kernel(SDPBackend.MATH)  # of fused kernels it counts what they compute twice, or nothing
    with FlopCounterMode(display=False) as counter, place.autocast(case.rounds), plainly:
        result = case.model(*args, **kwargs)
        (result.loss if hasattr(result, "loss") else result.float().square().mean()).backward()
    products, cost = counter.get_total_flops(), meter.step(case.batch(None))
    peak = meter.device.rated(meter.dtype)
    print(
        f"figures  {label:20} mfu {figures.get('mfu', float('nan')):.4f}, {figures['tflops_per_s']:.2f} TFLOP/s, "
        f"{figures['step_s'] * 1e3:.3f} ms by the meter ({meter.dtype}, {peak and peak.value / 1e12} TFLOP/s of "
        f"{meter.device.name}); FlopCounterMode {products / seconds_each / 1e12:.2f} TFLOP/s, "
        f"{products / seconds_each / H100:.4f} of an H100, {seconds_each * 1e3:.3f} ms; "
        f"products of the meter / its {2 * cost.macs / products:.5f}; all operations / products "
        f"{cost.flops / (2 * cost.macs):.4f}; {cost.how} {'; '.join(meter.notes)}",
        flush=True,
    )


def _longer(ones: list[float], others: list[float]) -> tuple[float, float]:
    """The median of differences in microseconds, and half of its interval of 95 %."""
    differences = [(one - other) * 1e6 for one, other in zip(ones, others, strict=True)]
    low, middle, high = statistics.quantiles(differences, n=4)
    return middle, 1.57 * (high - low) / len(differences) ** 0.5


def _logged(framework: str, model: Any, batch: Any, lines: list[dict[str, Any]]) -> None:
    """Print the values that a framework logged."""
    profile = flopwise.profile(model, batch, train=True)
    once = profile.total("flops") + profile.total("backward_flops")
    for line in lines:
        values = {name: float(line[name]) for name in ("flops", "tflops_per_s", "mfu", "step_s") if name in line}
        own = values["flops"] / values["step_s"] / 1e12 / values["tflops_per_s"]
        print(
            f"logged   {framework:20} flops / profile's {values['flops'] / once:.6f}, {values['tflops_per_s']:.3f} "
            f"TFLOP/s (flops / step_s / it {own:.6f}), mfu {values.get('mfu')}, {values['step_s'] * 1e3:.2f} ms a step",
            flush=True,
        )
    if len(lines) != 4:
        print(f"logged   {framework:20} {len(lines)} lines, not 4", flush=True)


def trainer(place: Place, compiled: bool) -> None:
    """Twenty steps of transformers' trainer."""
    import transformers

    from flopwise.integrations import transformers as integration

    model = _llama(place, 4, 1024, 2816).float()
    batch = _tokens(place, 8, 512)(None)
    data = [{name: tensor[0].cpu() for name, tensor in batch.items()}] * len(batch["labels"]) * 20
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            output_dir=folder, max_steps=20, per_device_train_batch_size=len(batch["labels"]), logging_steps=5,
            report_to=[], save_strategy="no", disable_tqdm=True, bf16=True, torch_compile=compiled,
            use_cpu=place.device == "cpu",
        )  # fmt: skip
        runner = transformers.Trainer(model, options, train_dataset=data)
        meter = integration.attach(runner)
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train()
    lines = [line for line in runner.state.log_history if "loss" in line]
    _logged(f"Trainer{' compiled' if compiled else ''}", model, batch, lines)
    print(f"logged   total_flos {runner.state.total_flos:.6g}, {meter.dtype}  {'; '.join(meter.notes)}", flush=True)


def lightning(place: Place) -> None:
    """Twenty steps of Lightning's trainer."""
    import lightning.pytorch as package
    from lightning.pytorch.loggers import CSVLogger

    from flopwise.integrations.lightning import FlopsCallback

    case = _vision("resnet50", 64)(place)
    (images,) = case.batch(None)

    class Module(package.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = case.model

        def training_step(self, batch: Any, index: int) -> Any:
            return self.net(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-5)

    data = torch.utils.data.DataLoader([image.cpu() for image in images] * 20, batch_size=len(images))
    with tempfile.TemporaryDirectory() as folder:
        runner = package.Trainer(
            max_steps=20, accelerator="gpu" if place.device == "cuda" else "cpu", devices=1, precision="bf16-mixed",
            logger=CSVLogger(folder), log_every_n_steps=5, callbacks=[FlopsCallback()], enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        runner.fit(Module(), data)
        (log,) = Path(folder).rglob("metrics.csv")
        lines = [row for row in csv.DictReader(log.open()) if row.get("flops")]
    _logged("Lightning", case.model.to(place.device), [images], lines)


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """One line in place of an error, so that the rest runs; memory is handed back."""
    try:
        yield
    except Exception as error:  # a model or a framework of another version
        import traceback

        print(f"failed   {what}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        traceback.print_exc(limit=-4)
    torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main(given: argparse.Namespace, names: list[str]) -> None:
    """Run all parts for which there is time."""
    start, place = time.perf_counter(), Place(given.device, given.small)

    def left() -> float:
        return float(given.limit - (time.perf_counter() - start))

    name = torch.cuda.get_device_name() if place.device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLOPWISE_STORE"] = str(Path(folder) / "times.sqlite")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "inductor")
        small = ["--small"] if place.small else []
        command = [sys.executable, __file__, "--device", place.device, *small, "--prepare"]
        children = [subprocess.Popen([*command, name]) for name in names]
        for name, child in zip(names, children, strict=True):
            try:
                if child.wait(max(1, 0.45 * given.limit - (given.limit - left()))):
                    print(f"failed   {name}: its process ended with status {child.returncode}", flush=True)
            except subprocess.TimeoutExpired:
                child.kill()
                print(f"failed   {name}: not prepared in time", flush=True)
        print(f"prepared in {given.limit - left():.0f} s", flush=True)
        jobs = [(name, False) for name in names] + [(name, True) for name in COMPILED if name in names]
        for place_in_line, (name, compiled) in enumerate(jobs):
            share = (left() - 40) / (len(jobs) - place_in_line) - 4  # forty for trainers, four to build a model
            if share < 4:
                print(f"left out {name}{' compiled' if compiled else ''}: no time", flush=True)
                continue
            with _said(f"{name}, compiled {compiled}"):
                measure(name, place, compiled, min(share, given.seconds))
        runs = {"Trainer": lambda: trainer(place, False), "Lightning": lambda: lightning(place)}
        for framework, run in {**runs, "Trainer compiled": lambda: trainer(place, True)}.items():
            if left() < 8:
                print(f"left out {framework}: no time", flush=True)
                continue
            with _said(framework):
                run()
    print(f"done in {given.limit - left():.0f} s", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="small models and batches, to try it out")
    parser.add_argument("--limit", type=float, default=235, help="seconds in all")
    parser.add_argument("--seconds", type=float, default=16, help="seconds of steps of one model, at most")
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        prepare(options.names[0], Place(options.device, options.small))
    else:
        main(options, options.names or [*CASES])
