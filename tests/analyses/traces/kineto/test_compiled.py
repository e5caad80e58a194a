"""Traces of compiled code: kernels made of several operators, on the rows that their names and neighbours tell."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import flopwise
from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.model import Gradients, Model
from flopwise.analyses.traces.kineto.names import Text, Token, is_layout, listed, parts, text_of, tokens_of
from flopwise.analyses.traces.kineto.records import Arguments, Operator

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto import recording  # noqa: E402 - without torch there is nothing to record
from torch import nn  # noqa: E402

SHARED = Path(__file__).parents[5] / "shared" / "traces"
sample = pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded traces")

#: Four steps of ``recording.Net`` under ``torch.compile`` with ``torch._inductor.config.cpp.enable_kernel_profile``.
COMPILED = Path(__file__).parent / "compiled.json.gz"
SIZES = (4, 3, 64, 64)

#: Three steps of training it with SGD, recorded in the same way.
TRAINING = COMPILED.with_name("compiled_training.json.gz")

#: The same of ``Attentive``.
ATTENTION = COMPILED.with_name("compiled_attention.json.gz")


def test_fused_kernels_are_segments_between_their_products() -> None:
    trace = flopwise.trace(recording.Net().eval(), COMPILED, SIZES, step="all")
    assert trace.matched == (11, 11, 1.0)
    assert [row.name for row in trace.rows if row.status == "matched"] == ["stem.0", "body.0", "head"]
    assert [segment.layers for segment in trace.segments] == [
        ("stem.1", "stem.2"),
        ("body.1", "body.2", "mean", "add", "adaptive_avg_pool2d", "flatten"),
    ]
    assert [segment.launches for segment in trace.segments] == [4, 4]
    assert set(trace.remainder) == {"gaps", "compiler", "layout"}
    assert not trace.notes


def test_a_compiled_backward_pass_is_on_the_rows_of_its_gradients() -> None:
    """Both gradients of the linear layer, one of which runs last of all, and fused kernels between the convolutions."""
    model = recording.Net()
    trace = flopwise.trace(model, TRAINING, SIZES, step="all")
    assert trace.matched == (11, 11, 1.0)
    assert not trace.notes
    backward = {row.name: row for row in trace.rows if row.phase == "backward"}
    products = {name: row.launches for name, row in backward.items() if row.status == "matched"}
    assert products == {"stem.0": 3, "body.0": 3, "head": 6}
    assert backward["head"].flops == 3 * flopwise.profile(model, SIZES, train=True).rows[-1].backward_flops
    segments = [segment.layers for segment in trace.segments if segment.phase == "backward"]
    assert segments == [segment.layers for segment in trace.segments if segment.phase == "forward"]
    named = {"compiler", "compiled kernels", "optimiser", "loss", "accumulate gradients", "gaps"}
    assert set(trace.remainder) == named
    alone = flopwise.trace(None, TRAINING, step="all")
    times = {row.name: row.time_ns for row in alone.rows if row.phase == "backward" and row.time_ns}
    assert times["convolution_backward 4x16x32x32 4x3x64x64 16x3x3x3"] == backward["stem.0"].time_ns


class Attentive(nn.Module):
    """An attention with dropout, which a compiler takes apart into products and a softmax between them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(64, 192), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [part.unflatten(-1, (4, 16)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        mixed = nn.functional.scaled_dot_product_attention(*heads, dropout_p=0.1 if self.training else 0.0)
        logits: torch.Tensor = self.head(mixed.transpose(1, 2).flatten(2).mean(1))
        return logits


class Projected(nn.Module):
    """Queries, keys and values by products of their own, and their attention."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(64, 64, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [one(x).unflatten(-1, (4, 16)).transpose(1, 2) for one in (self.queries, self.keys, self.values)]
        return nn.functional.scaled_dot_product_attention(*parts)


def test_the_products_of_an_attention_that_was_taken_apart_are_its_own() -> None:
    """Scores, softmax and weighted values on the way forward, two gradients of each product on the way back."""
    x = torch.zeros(2, 24, 64, requires_grad=True)
    trace = flopwise.trace(Attentive(), ATTENTION, x, step="all")
    assert trace.matched.product_time_share == 1.0
    assert "unmatched" not in trace.remainder
    launches = {row.phase: row.launches for row in trace.rows if row.op == "Attention"}
    assert launches == {"forward": 3 * 3, "backward": 3 * 4}


def test_the_values_of_an_attention_may_be_computed_between_its_products() -> None:
    """As on an H100: the scores are there before the values that they weigh."""

    def called(name: str, *shapes: tuple[int, ...]) -> Operator:
        return Operator(name, "", 0, 1, Arguments(shapes), None, False)

    weights, heads = ((48, 64), (64, 64), (48, 64)), ((8, 24, 16), (8, 16, 24), (8, 24, 24))
    scores, values = called("aten::bmm", *heads), called("aten::bmm", heads[2], heads[0], heads[0])
    softmax = called("triton_per_fused__safe_softmax_add_3", (8, 24, 24))
    linear = [called("aten::mm", *weights) for _ in range(3)]
    profile = flopwise.profile(Projected(), (2, 24, 64))
    places = Model(profile, {}).places([*linear[:2], scores, softmax, linear[2], values], trains=False)
    assert [profile.rows[places[o].layers[0]].name for o in linear] == ["queries", "keys", "values"]
    assert {profile.rows[row].node.op for o in (scores, softmax, values) for row in places[o].layers} == {"Attention"}


class Grouped(nn.Module):
    """An attention whose keys and values have fewer heads than its queries."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries, keys = (part.unflatten(-1, (-1, 16)).transpose(1, 2) for part in x.split((64, 32), -1))
        return nn.functional.scaled_dot_product_attention(queries, keys, keys, enable_gqa=True)


def test_the_gradient_of_an_attention_whose_heads_were_repeated_is_its_own() -> None:
    profile = flopwise.profile(Grouped(), (2, 24, 96), train=True)
    shapes = ((2, 4, 24, 16),) * 5  # keys and values as often as the queries
    operator = Operator("aten::_flash_attention_backward", "", 0, 1, Arguments(shapes), None, False)
    place = Gradients(profile, tokens_of(profile), {}).places([operator])[operator]
    assert [profile.rows[row].node.op for row in place.layers] == ["Attention"]


class Shuffled(nn.Module):
    """Two branches that are joined, as in ShuffleNet: the first one's last rows wait for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.other = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat((self.one(x), self.other(x)), 1)
        return x.unflatten(1, (2, 8)).transpose(1, 2).flatten(1, 2)


def test_work_that_is_put_off_until_branches_meet_is_in_their_kernel(tmp_path: Path) -> None:
    products = [("aten::convolution", [[1, 8, 6, 6], [8, 8, size, size]]) for size in (1, 3)]
    fused = ("graph_0_cpp_fused__native_batch_norm_legit_no_training_clone_convolution_relu_transpose_view_3", [])
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 10 * n,
            "dur": 9,
            "args": {"Input Dims": d},
        }
        for n, (name, d) in enumerate([*products, fused])
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = flopwise.trace(Shuffled().eval(), path, (1, 8, 6, 6))
    assert trace.matched.rows == trace.matched.of
    (segment,) = trace.segments
    assert segment.layers[:5] == ("one.1", "one.2", "other.1", "other.2", "cat")


def test_kernels_without_events_are_named_and_the_note_says_how_to_see_them(tmp_path: Path) -> None:
    content = json.loads(gzip.decompress(COMPILED.read_bytes()))
    content["traceEvents"] = [event for event in content["traceEvents"] if "_fused_" not in event["name"]]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content))
    whole = flopwise.trace(recording.Net().eval(), COMPILED, SIZES, step="all")
    trace = flopwise.trace(recording.Net().eval(), path, SIZES, step="all")
    around = whole.remainder["compiler"] - trace.remainder["compiler"]
    assert trace.remainder["compiled kernels"] == around + whole.segments_ns + whole.remainder["layout"]
    assert trace.covered_ns == whole.covered_ns
    (note,) = trace.notes
    assert "enable_kernel_profile" in note


def test_a_file_of_the_compiler_tells_what_names_do_not(tmp_path: Path) -> None:
    """As ``torch._inductor.debug.create_kernel_information_json`` writes it, of kernels that are only numbered."""
    text, information = gzip.decompress(COMPILED.read_bytes()).decode(), {}
    for number, name in enumerate(
        sorted({e["name"] for e in json.loads(text)["traceEvents"] if "_fused_" in e["name"]})
    ):
        text = text.replace(f'"{name}"', f'"graph_0_cpp_{number}"')
        nodes = [
            f"{word}_{number}"
            for word in ("mean", "silu", "relu", "conv2d")
            if word in name.replace("convolution", "conv2d")
        ]
        information[f"cpp_{number}:{number + 3}"] = {
            "stack_traces": [],
            "post_grad_nodes": ["mul"],
            "pre_grad_nodes": nodes,
        }
    path, beside = tmp_path / "t.json", tmp_path / "kernel_information.json"
    path.write_text(text)
    beside.write_text(json.dumps(information))
    expected = flopwise.trace(recording.Net().eval(), COMPILED, SIZES, step="all")
    trace = flopwise.trace(recording.Net().eval(), path, SIZES, step="all", beside=beside)
    assert trace.segments == expected.segments
    assert not flopwise.trace(recording.Net().eval(), path, SIZES, step="all").segments


class Block(nn.Module):
    """A layer of a transformer with its norms written out, as the recording below has it."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(2048, 2048, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(2048, 8192, bias=False) for _ in range(2))
        self.down = nn.Linear(8192, 2048, bias=False)
        self.first, self.second = (nn.Parameter(torch.ones(2048)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

        y = norm(x, self.first)
        heads = [part(y).view(8, 4096, 16, 128).transpose(1, 2) for part in list(self.parts)[:3]]
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.parts[3](mixed.transpose(1, 2).reshape(8, 4096, 2048))
        y = norm(x, self.second)
        result: torch.Tensor = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return result


@sample
def test_a_compiled_block_on_a_gpu() -> None:
    """Recorded by others on an MI300X: the time of every kernel is on rows or on segments of them."""
    with torch.device("meta"):
        block, x = Block().to(torch.bfloat16), torch.zeros(8, 4096, 2048, dtype=torch.bfloat16)
    trace = flopwise.trace(block, SHARED / "kineto_compile_triton.json.gz", x)
    assert trace.matched.product_time_share == 1.0
    assert set(trace.remainder) == {"gaps"}
    assert sum(row.launches for row in trace.rows) + sum(one.launches for one in trace.segments) == 12
    assert ("silu", "mul:5") in [segment.layers for segment in trace.segments]  # put off behind the next product
    assert all(row.time_ns for row in trace.rows if row.op in ("Gemm", "Attention"))


def _text(name: str) -> Text:
    """The words of a compiled kernel, or of one that somebody wrote."""
    operator = Operator(name, "", 0, 0, Arguments(), None, False, context=names.GRAPHS)
    text = text_of(operator, {"triton_per_fused_0": "erf_mul"})
    assert text is not None
    return text


def test_names_of_kernels_tell_their_rows() -> None:
    rows = [Token(name, "", (), macs) for name, macs in (("view", 0), ("gelu", 0), ("softmax", 0), ("linear", 9))]

    def told(*kernels: str) -> list[list[int]]:
        return parts([_text(kernel) for kernel in kernels], rows)

    assert told("triton_poi_fused_erf_mul_1", "triton_poi_fused__softmax_div_2") == [[0, 1], [2]]
    assert told("triton_per_fused_0", "graph_0_cpp_fused__softmax_div_0") == [[0, 1], [2]]
    assert told("triton_poi_fused__softmax_erf_0") == [[0, 1, 2]]
    assert told("triton_tem_fused_addmm_cos_0") == told("graph_0_cpp_fused_addmm_cos_0") == [[0, 1, 2, 3]]
    assert told("triton_poi_fused_addmm_cos_0") == [[]]  # adds the bias to what a library multiplied
    assert told("triton_poi_fused_cos_0") == [[]]
    assert told("void vllm::paged_attention<c10::Half, 8>(gelu*)") == [[0, 1, 2]]
    assert is_layout(_text("triton_poi_fused_convolution_0"))
    assert not is_layout(_text("triton_poi_fused_convolution_relu_0"))
    assert listed("triton_poi_fused_add_cos_sin_0") == "add_cos_sin"
    assert listed("aten::mm") is None
