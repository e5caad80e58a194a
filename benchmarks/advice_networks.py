"""What ``flopwise advise`` says of well-known networks, to be read, with each "same result" held against onnxruntime.

Networks of torchvision and timm and small language models with random weights are exported to ONNX, one at a time. For
each piece of advice of the kind "same result" at a level, its operators have to be among those that onnxruntime's own
profiler saw running at that level, and in the graph that it saved. ``--write`` also has ``-o`` carry the changes out,
and compares the outputs of both files in a session of this script's own. ``--plain`` exports as the program is:
networks for images by TorchScript with their normalisations, language models without the exporter's own optimiser.
``--full`` takes the language models with all their layers.

    python benchmarks/advice_networks.py [--levels basic,all] [--write] [--plain] [--full] [--only NAME,...]
                                         [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

import flopwise
from flopwise.analyses.advice.advice import Suggestion, by_rule, dominated

TORCHVISION = (
    "mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x1_0 squeezenet1_0 squeezenet1_1 mnasnet1_0 "
    "efficientnet_b0 efficientnet_b3 efficientnet_v2_s regnet_y_400mf regnet_x_3_2gf googlenet inception_v3 resnet18 "
    "resnet50 resnet101 resnext50_32x4d wide_resnet50_2 densenet121 densenet169 convnext_tiny swin_t swin_v2_t "
    "maxvit_t vit_b_16 alexnet vgg16 vgg16_bn"
)
SEGMENTATION = "lraspp_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50"
TIMM = (
    "ghostnet_100 tinynet_a rexnet_100 mixnet_s mobileone_s1 mobilenetv4_conv_small efficientvit_b0 edgenext_small "
    "mobilevit_s poolformer_s12 deit_small_patch16_224 xcit_tiny_12_p16_224 cait_xxs24_224 resmlp_12_224 "
    "convnextv2_tiny resnet50d seresnet50 resnest50d res2net50_26w_4s resnetv2_50 dpn68 cspdarknet53 repvgg_a2 "
    "nfnet_l0 hrnet_w18 inception_v4 mixer_b16_224 beit_base_patch16_224"
)

#: Language model -> its classes and settings beside two layers; other sizes are those that it was published in.
LANGUAGE = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_layer": 2}),
    "bert": ("BertConfig", "BertForMaskedLM", {"num_hidden_layers": 2}),
    "opt": ("OPTConfig", "OPTForCausalLM", {"num_hidden_layers": 2}),
    "llama": (
        "LlamaConfig",
        "LlamaForCausalLM",
        {"num_hidden_layers": 2, "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16},
    ),
    "qwen2": (
        "Qwen2Config",
        "Qwen2ForCausalLM",
        {
            "num_hidden_layers": 2,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "vocab_size": 32000,
        },
    ),
    "t5": ("T5Config", "T5EncoderModel", {"num_layers": 2}),
}

#: Language model -> what else its published form has, beside what its configuration says by itself.
FULL: dict[str, dict[str, int]] = {
    "llama": {
        "num_hidden_layers": 22,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
    },
    "qwen2": {**LANGUAGE["qwen2"][2], "num_hidden_layers": 24, "vocab_size": 151936, "tie_word_embeddings": True},
}

TOKENS = 64


def modules(full: bool = False) -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Name of a network, and a function that makes its module and its input."""
    for name in LANGUAGE:
        yield name, functools.partial(_language, name, FULL.get(name, {}) if full else LANGUAGE[name][2])
    for name in TIMM.split():
        yield name, functools.partial(_timm, name)
    for name in SEGMENTATION.split():
        yield name, functools.partial(_torchvision, name, "segmentation")
    for name in TORCHVISION.split():
        yield name, functools.partial(_torchvision, name)


def _torchvision(name: str, room: str = "") -> tuple[Any, Any]:
    import torch
    import torchvision

    models = getattr(torchvision.models, room) if room else torchvision.models
    without = {"weights": None, **({"weights_backbone": None} if room else {})}
    size = {"inception_v3": 299, "efficientnet_b3": 300, "swin_v2_t": 256}.get(name, 224)
    if name in ("inception_v3", "googlenet"):
        without |= {"init_weights": False, "aux_logits": False}
    return getattr(models, name)(**without).eval(), torch.zeros(1, 3, size, size)


def _timm(name: str) -> tuple[Any, Any]:
    import timm
    import torch

    model = timm.create_model(name, pretrained=False, exportable=True).eval()
    return model, torch.zeros(1, *model.default_cfg["input_size"])


def _language(name: str, settings: dict[str, Any]) -> tuple[Any, Any]:
    import torch
    import transformers
    from torch import nn

    config, kind, _ = LANGUAGE[name]
    model = getattr(transformers, kind)(getattr(transformers, config)(use_cache=False, **settings)).eval()

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any) -> Any:
            return self.model(input_ids=input_ids, return_dict=False)[0]

    return Plain().eval(), torch.zeros(1, TOKENS, dtype=torch.int64)


def exported(name: str, make: Callable[[], tuple[Any, Any]], folder: Path, plain: bool = False) -> Path:
    """The network as an ONNX file, exported unless it is there."""
    path = folder / f"{name}{'.plain' if plain else ''}.onnx"
    if not path.exists():
        import torch
        from tests.torch_vision import torchvision  # before timm and transformers import it

        assert torchvision

        torch.manual_seed(0)
        module, example = make()
        with torch.no_grad():
            if plain and name not in LANGUAGE:
                as_it_is = torch.onnx.TrainingMode.PRESERVE
                settings = {"do_constant_folding": False, "training": as_it_is, "opset_version": 17}
                torch.onnx.export(_with_statistics(module), (example,), path, dynamo=False, **settings)
                return path
            large = sum(p.nbytes for p in module.parameters()) > 2e9
            torch.onnx.export(
                module, (example,), path, dynamo=True, verbose=False, external_data=large, optimize=not plain
            )
    return path


def _with_statistics(module: Any) -> Any:
    """The module with normalisations as after training: by random statistics, scales and shifts."""
    from torch import nn

    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            for tensor, least, most in (
                (each.running_mean, -0.2, 0.2),
                (each.running_var, 0.5, 1.5),
                (each.weight.data, 0.5, 1.5),
                (each.bias.data, -0.2, 0.2),
            ):
                tensor.uniform_(least, most)
    return module


def executed(path: Path, level: str, folder: Path) -> tuple[set[str], set[str]]:
    """Names of the nodes that ran at a level, by onnxruntime's profiler, and results of the graph that it saved."""
    options = _options(level)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.optimized_model_filepath = str(folder / "saved.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, feeds(session))
    profile = Path(session.end_profiling())
    events = json.loads(profile.read_text())
    profile.unlink()
    ran = {e["name"].removesuffix("_kernel_time") for e in events if e["cat"] == "Node"}
    saved = onnx.load(folder / "saved.onnx", load_external_data=False)
    return ran, {output for node in saved.graph.node if node.name in ran for output in node.output}


def _options(level: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    names = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
    options.graph_optimization_level = getattr(levels, f"ORT_{names[level]}")
    return options


def feeds(session: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    """Inputs of random numbers; integers pick rows."""
    random = np.random.default_rng(3)
    return {
        i.name: random.integers(0, 1000, i.shape) if "int" in i.type else random.standard_normal(i.shape, np.float32)
        for i in session.get_inputs()
    }


def difference(path: Path, other: Path) -> float:
    """The largest difference of the outputs of two models, over their largest element."""
    results = []
    for each in (path, other):
        session = onnxruntime.InferenceSession(each, _options("off"), providers=["CPUExecutionProvider"])
        results.append(session.run(None, feeds(session)))
    pairs = zip(*results, strict=True)
    return max(float(np.abs(a.astype(np.float64) - b).max() / max(1e-30, np.abs(a).max())) for a, b in pairs)


def lines(found: tuple[Suggestion, ...], kind: str) -> Iterator[str]:
    """A line for each rule of a kind."""
    for each in by_rule(found):
        if each.kind == kind and each.rule.name not in dominated(found):
            where = f"{each.place[0]} +{len(each.place) - 1} x{each.number}"
            saved = f"{each.saved.macs / 1e6:.1f} M {each.saved.nbytes / 1e6:.2f} MB"
            yield f"   {kind:5} {each.rule.name:18} {each.share:6.1%}  {saved:22} {where}: {each.text}"


def judge(name: str, path: Path, levels: list[str], folder: Path, write: bool) -> tuple[int, int]:
    """Print the advice on a network; places of the same result, and those whose operators did not run."""
    places = wrong = 0
    for level in levels:
        start = time.thread_time()
        advice = flopwise.advise(path, optimization=level)
        print(f"{name} at {level} ({time.thread_time() - start:.1f} s)", flush=True)
        ran, results = executed(path, level, folder)
        for each in advice.suggestions:
            if each.kind != "same":
                continue
            places += 1
            idle = [n.name for n in each.gone if n.name not in ran or n.known_outputs[0].name not in results]
            if idle:
                wrong += 1
                print(f"   NOT EXECUTED at {level}: {each.rule.name}: {idle}")
        for kind in ("same", "other"):
            if kind == "same" or level == levels[-1]:
                print("".join(f"{line}\n" for line in lines(advice.suggestions, kind)), end="")
    if write:
        leaner = folder / "leaner.onnx"
        notes = flopwise.advise(path, keep_network=True, output=leaner).notes
        done = next(note for note in notes if note.startswith(str(leaner)))
        print(f"{name} -o{done.removeprefix(str(leaner))}; difference {difference(path, leaner):.1e}")
        print("".join(f"   -o {note}\n" for note in notes if "left as they are" in note), end="", flush=True)
    return places, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", default="basic,all")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--folder", type=Path, help="where exported models are, and stay; default: nowhere")
    arguments = parser.parse_args()
    chosen = [name for name in arguments.only.split(",") if name]
    networks = places = wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, make in modules(arguments.full):
            if chosen and name not in chosen:
                continue
            try:
                path = exported(name, make, arguments.folder or folder, arguments.plain)
                levels = [level for level in arguments.levels.split(",") if level]
                counts = judge(name, path, levels, folder, arguments.write)
            except Exception as error:  # the others are judged all the same
                print(f"{name}: FAILED: {type(error).__name__}: {str(error).splitlines()[0][:300]}", flush=True)
                continue
            networks, places, wrong = networks + 1, places + counts[0], wrong + counts[1]
            if arguments.folder is None:
                path.unlink()
    print(f"{networks} networks: {places} places of the same result, {wrong} of them not executed at their level")


if __name__ == "__main__":
    main()
