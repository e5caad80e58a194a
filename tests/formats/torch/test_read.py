"""PyTorch modules: the right number whatever the module is made of, and the module afterwards as it was."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from tests.torch_modules import MODULES  # noqa: E402
from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.errors import InputError, ModelError  # noqa: E402

GOLDEN = Path(__file__).parents[2] / "recorded" / "module_tools.json"

#: Modules of the golden file whose multiply-adds its reference does not state as one number after "MAC".
WORKED_OUT = {
    "einsum ii->i... elementwise i,i->i [64]": 0,  # a product without a sum
    "MHA(64,4) batch_first [2,10,64] eval": 353_280,
    "TransformerEncoderLayer(64,4,128) [2,10,64] eval": 680_960,
    "LSTM(10,20,2 layers) seq-first [5,3,10]": 84_000,
    "LSTM bidir(10,20,2) [5,3,10]": 216_000,
    "GRU(10,20) [5,3,10]": 27_000,
    "LSTMCell(10,20) [3,10]": 7_200,
    "own nn.Parameter + child + unused": 16_384 + 8_192,
    "dynamic-quantised Linear(64->32)": 16_384,
    "Embedding(100,64) [2,10]": 0,
    "add x+y [1,16,8,8]": 0,
}


def references() -> dict[str, int]:
    """The multiply-adds that were worked out by hand, by module."""
    found = {}
    for name, entry in json.loads(GOLDEN.read_text()).items():
        if name in MODULES:
            said = re.match(r"MAC (\d+)(?![\d*])", entry["reference"])
            if name in WORKED_OUT or said:
                found[name] = WORKED_OUT[name] if name in WORKED_OUT else int(said[1])
    return found


@pytest.mark.parametrize("name", sorted(references()))
def test_macs_are_those_worked_out_by_hand(name: str) -> None:
    module, inputs = MODULES[name]()
    profile = flopwise.profile(module, tuple(inputs), mode="as-is")
    assert profile.total("macs") == references()[name]
    assert not profile.unknown


def test_a_sparse_matrix_counts_what_it_stores() -> None:
    module, inputs = MODULES["sparse mm (coo 10% dense) [64,64]x[64,32]"]()
    stored = next(t for t in (*inputs, *vars(module).values(), *module.buffers()) if getattr(t, "is_sparse", False))
    assert flopwise.profile(module, tuple(inputs)).total("macs") == stored._nnz() * 32


class Everything(nn.Module):
    """Layers that keep statistics, draw random numbers, write into buffers and remember what they saw."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.seen: Any = None
        self.fails = fails

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.calls.add_(1)
        x = self.drop(self.norm(self.conv(x)))
        self.seen = x
        self.extra = x.shape
        y = x.flatten(2).transpose(1, 2)
        if self.fails:
            raise KeyError("nothing")
        return self.attention(y, y, y)[0]


def state(module: nn.Module) -> dict[str, Any]:
    """Everything about a module that a user could notice."""
    return {
        "modes": [m.training for m in module.modules()],
        "attributes": [{k: v for k, v in vars(m).items() if not isinstance(v, torch.Tensor)} for m in module.modules()],
        "tensors": {k: v.clone() for k, v in module.state_dict().items()},
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in module.modules()],
        "gradients": [p.grad for p in module.parameters()],
        "marks": [sorted(vars(t)) for t in (*module.parameters(), *module.buffers())],
    }


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("mode", ["eval", "train", "as-is"])
@pytest.mark.parametrize("needs_values", [False, True])
def test_the_module_is_afterwards_what_it_was(fails: bool, mode: Any, needs_values: bool) -> None:
    model: nn.Module = Everything(fails)
    if needs_values:
        model = nn.Sequential(AsksForValues(), model)
    model.train()
    model[-1].norm.eval() if needs_values else model.norm.eval()
    handle = model.register_forward_hook(lambda module, args, result: None)
    public = (nn.Module._call_impl, torch.autograd.Function.__dict__["apply"], torch.nn.functional.relu, torch.load)
    fast, chance, grad = torch.backends.mha.get_fastpath_enabled(), torch.get_rng_state(), torch.is_grad_enabled()
    before = state(model)
    with pytest.raises(ModelError, match="KeyError: 'nothing'") if fails else contextlib.nullcontext():
        flopwise.profile(model, (2, 3, 10, 10), mode=mode)
    after = state(model)
    for key in ("modes", "attributes", "hooks", "gradients", "marks"):
        assert before[key] == after[key], key
    assert list(before["tensors"]) == list(after["tensors"])
    assert all(torch.equal(v, after["tensors"][k]) for k, v in before["tensors"].items())
    assert public == (
        nn.Module._call_impl,
        torch.autograd.Function.__dict__["apply"],
        torch.nn.functional.relu,
        torch.load,
    )
    assert torch.equal(chance, torch.get_rng_state())
    assert (fast, grad) == (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled())
    handle.remove()


class AsksForValues(nn.Module):
    """Decides by the elements of its input."""

    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x


def test_where_values_decide_the_module_runs_for_real_and_a_note_says_so() -> None:
    profile = flopwise.profile(AsksForValues(), (4, 4))
    assert [row.node.op for row in profile.rows][-1] == "Mul"
    assert any("ran on real tensors" in note for note in profile.notes)


def test_without_memory_values_cannot_decide() -> None:
    model = nn.Sequential(nn.Linear(4, 4, device="meta"), AsksForValues())
    with pytest.raises(ModelError, match=r"in 1 \(AsksForValues\), given 4×4: .*reads elements.*meta device"):
        flopwise.profile(model, (4, 4))


def test_constants_have_values_without_running_for_real() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            if mask.all():
                return x + 1
            positions = torch.arange(x.shape[1])[mask.sum() :]
            return x[:, positions.tolist()] @ torch.ones(2, 3)

    full = flopwise.profile(Masked(), {"x": (2, 4), "mask": torch.ones(4, dtype=torch.bool)})
    assert full.total("macs") == 0
    half = flopwise.profile(Masked(), {"x": (2, 4), "mask": torch.tensor([True, True, False, False])})
    assert half.total("macs") == 2 * 2 * 3
    assert not any("real" in note for note in (*full.notes, *half.notes))


def test_every_way_of_giving_inputs() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, other: Any = None, *, scale: float = 1.0) -> Any:
            if isinstance(x, dict):
                x, other = x["a"], x["b"][0]
            return x @ x.mT if other is None else x @ other * scale

    macs = {
        (3, 4): 36,
        "x:f32:3x4": 36,
        "3x4": 36,
        (torch.zeros(3, 4),): 36,
        ((3, 4), (4, 5)): 60,
        ("x:3x4", "other:4x5"): 60,
    }
    for inputs, expected in macs.items():
        assert flopwise.profile(Two(), inputs).total("macs") == expected, inputs
    assert flopwise.profile(Two(), {"x": (3, 4), "other": (4, 5)}).total("macs") == 60
    assert flopwise.profile(Two(), (((3, 4),), {"other": (4, 5), "scale": 2.0})).total("macs") == 60
    assert flopwise.profile(Two(), {"x": {"a": (3, 4), "b": [(4, 5)]}}).total("macs") == 60
    assert flopwise.profile(Two(), "x:f32:nx4", dims={"n": 7}).total("macs") == 7 * 7 * 4
    assert flopwise.profile(Two(), (3, 4), batch_size=5).total("macs") == 100


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (None, r"needs the shape of its input 'input': give inputs=\{'input': \(1, 3, 224, 224\)\}"),
        ((1, 4, 8, 8), r"in 0 \(Conv2d\), given 1×4×8×8: RuntimeError: .*to have 3 channels, but got 4 channels"),
        ("y:1x3x8x8", "no input is named as in 'y:1x3x8x8'; the inputs are 'input'"),
        ("nx3x8x8", "'n' has no value; give --dim n=NUMBER"),
        (object(), "cannot understand inputs=an object"),
        ({"nope": (1, 3, 8, 8)}, "TypeError: .*nope"),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(inputs: Any, words: str) -> None:
    with pytest.raises((ModelError, InputError), match=words) as caught:
        flopwise.profile(nn.Sequential(nn.Conv2d(3, 8, 3)), inputs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("yes", [1, numpy.True_])
def test_what_stands_for_true_is_true(yes: Any) -> None:
    assert flopwise.read(nn.Linear(4, 2), (3, 4), grad=yes).nodes


def test_modules_are_seen_with_their_calls() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.again = self.layer
            self.never = nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    profile = flopwise.profile(Twice(), (4, 8))
    assert profile.total("macs") == 2 * 4 * 64
    assert profile.total("params") == 72 + 18
    assert [c.path for c in profile.graph.program.calls] == ["", "layer", "layer"]
    assert [(m.path, m.also) for m in profile.graph.program.modules] == [("", ()), ("layer", ("again",)), ("never", ())]
    assert [row.name for row in profile.rows] == ["layer", "layer:2", "never"]
    assert [row.node.op for row in profile.rows][-1] == "torch::Unused"
    assert profile.graph.program.modules[1].options["in_features"] == 8


class OnConstants(nn.Module):
    """Renders its own grid, as an implicit representation does; ``w`` scales the rows of one layer in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", torch.rand(64, 2))
        self.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, shift: Any = None) -> Any:
        field = self.net(self.grid)
        return field if shift is None else field + shift


class Queries(nn.Module):
    """A decoder whose first self-attention sees learned queries alone."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(5, 16))
        self.decoder = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)

    def forward(self, memory: Any) -> Any:
        return self.decoder(self.queries.expand(memory.shape[0], -1, -1), memory)


FIELD = 64 * (2 * 16 + 16 * 3)


@pytest.mark.parametrize(
    ("model", "inputs", "macs", "folded", "params"),
    [
        (OnConstants(), None, FIELD, 0, 99),
        (OnConstants(), [(1, 3)], FIELD, 0, 99),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), [(3, 4)], 24, 24, 12),
        (Queries(), [(2, 9, 16)], 39_296, 24_896, 3_424),
    ],
    ids=["a field on a buffer", "and shifted", "weight norm", "learned queries"],
)
def test_a_program_is_charged_what_it_computes_of_constants(
    model: nn.Module, inputs: Any, macs: int, folded: int, params: int
) -> None:
    """FlopCounterMode counts the multiply-adds here. An exporter would fold them, which has to be asked for."""
    profile = flopwise.profile(model, inputs)
    assert profile.exact
    assert (profile.total("macs"), profile.total("params")) == (macs, params)
    assert not any(row.node.op == "torch::Unused" for row in profile.rows)
    assert not any("once" in note for note in profile.notes)
    without = flopwise.profile(model, inputs, fold=True)
    assert without.total("macs") == folded
    assert any("not counted (--no-fold)" in note for note in without.notes)
    assert profile.peak_activation_bytes > without.peak_activation_bytes or macs == folded
    with_gradients = flopwise.profile(model, inputs, train=True)
    assert with_gradients.total("macs") == macs


def test_a_function_without_arguments_is_charged_its_call() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(2, 8)
    profile = flopwise.profile(lambda: layer(x))
    assert [(row.name, row.macs, row.params) for row in profile.rows] == [("layer", 64, 36)]


def test_graphs_of_files_are_folded() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
    flops = flopwise.profile(layer, (3, 4), fold=True).total("flops")
    assert flops < flopwise.profile(layer, (3, 4)).total("flops")
    assert flopwise.profile(torch.export.export(layer, (torch.zeros(3, 4),))).total("flops") == flops
    assert flopwise.profile(torch.jit.trace(layer, torch.zeros(3, 4)), (3, 4)).total("flops") == flops


def test_unknown_operators_are_unknown_and_take_a_rule() -> None:
    library = torch.library.Library("flopwise_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")

    class Custom(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.flopwise_test.twice(x)

    profile = flopwise.profile(Custom(), (4, 4))
    assert profile.unknown == {"flopwise_test::twice": 1}
    assert not profile.exact
    rule = {"flopwise_test::twice": lambda node: flopwise.Counts(mul=node.output().numel)}
    assert flopwise.profile(Custom(), (4, 4), rules=rule).total("flops") == 16
    library._destroy()


def test_what_torchscript_runs_is_seen() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.jit.script(nn.Linear(4, 5))

        def forward(self, x: Any) -> Any:
            return self.layer(x) + 1

    assert flopwise.profile(Scripted(), (3, 4)).total("macs") == 60
    assert flopwise.profile(torch.jit.script(nn.Linear(4, 5)), (3, 4)).total("macs") == 60
    assert flopwise.profile(torch.jit.trace(nn.Linear(4, 5), torch.zeros(1, 4)), (3, 4)).total("macs") == 60


def test_compiled_modules_count_as_they_were_written() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(4, 5), nn.ReLU()))
    profile = flopwise.profile(model, (3, 4))
    assert profile.total("macs") == 60
    assert [row.node.op for row in profile.rows] == ["Gemm", "Relu"]


def test_a_module_that_compiled_itself_is_seen_in_its_calls() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
    model.compile()
    model[0].compile()
    compiled = [module._compiled_call_impl for module in model.modules()]
    profile = flopwise.profile(model, (3, 4))
    assert [row.node.module for row in profile.rows] == ["0", "1"]
    assert [call.path for call in profile.graph.program.calls] == ["", "0", "1"]
    assert [module._compiled_call_impl for module in model.modules()] == compiled


def test_modules_made_in_fake_mode() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model = nn.Linear(4, 5)
    assert flopwise.profile(model, (3, 4)).total("macs") == 60


def test_modules_of_other_types() -> None:
    half = nn.Linear(4, 5).half()
    profile = flopwise.profile(half, (3, 4))
    assert profile.graph.inputs[0].dtype == "float16"
    assert profile.sum.weight_bytes == 50
    numbers = nn.Linear(4, 5, dtype=torch.complex64)
    assert flopwise.profile(numbers, torch.zeros(3, 4, dtype=torch.complex64)).total("macs") == 240


def test_flex_attention_and_what_it_does_to_the_scores() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return flex_attention(q, k, v)

    shape = (1, 2, 16, 8)
    profile = flopwise.profile(Flex(), [shape] * 3)
    assert profile.total("macs") == 2 * 2 * 16 * 16 * 8


def test_nested_tensors_run_for_real() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 5)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    nested = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)], layout=torch.jagged)
    profile = flopwise.profile(Nested(), [nested])
    assert profile.total("macs") == 5 * 4 * 5


@pytest.mark.parametrize("pack", [lambda x: x, lambda x: (x,), lambda x: {"x": x}, lambda x: ([{"part": [x]}],)])
def test_a_nested_tensor_without_a_shape_is_refused_with_the_cure(pack: Any) -> None:
    nested = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)])
    said = r"^input 'x[a-z0-9.]*' is a nested tensor of the layout torch.strided, .* layout=torch.jagged, or pad it"
    with pytest.raises(InputError, match=said):
        flopwise.profile(lambda x: nn.functional.relu(x), pack(nested))


def test_an_encoder_with_a_mask_of_padding_is_seen_layer_by_layer() -> None:
    """PyTorch's own way without gradients packs the tokens into a nested tensor, of which nobody sees the work."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).eval()
    encoder.requires_grad_(False)
    padding = torch.tensor([[False] * 4 + [True] * 6, [False] * 10])
    fast = torch.backends.mha.get_fastpath_enabled()
    profile = flopwise.profile(encoder, {"src": torch.zeros(2, 10, 16), "src_key_padding_mask": padding})
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert not profile.unknown
    assert profile.sum.macs == 2 * 10 * (4 * 16 * 16 + 2 * 16 * 32 + 2 * 10 * 16)


@pytest.mark.parametrize(
    ("exponent", "counts"),
    [
        (2, {"mul": 1}),
        (3.0, {"mul": 2}),
        (0.5, {"sqrt": 1}),
        (-0.5, {"sqrt": 1, "div": 1}),
        (-1, {"div": 1}),
        (1, {}),
        (4, {"pow": 1}),
        (1.7, {"pow": 1}),
        (torch.tensor(2.0), {"pow": 1}),  # known when the program runs alone
    ],
)
def test_a_power_of_a_constant_is_products_or_a_root(exponent: Any, counts: dict[str, int]) -> None:
    class Power(nn.Module):
        def forward(self, x: Any) -> Any:
            return x**exponent

    assert flopwise.profile(Power(), (3, 4)).sum.counts == flopwise.Counts(**counts) * 12


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("input:f16:3:1,2,3", "float16"),
        ("input:i32:3:1,2,3", "int32"),
        ("input:3:1,2,3", "int64"),
        ("input:1:0.5", "float32"),
    ],
)
def test_data_are_of_the_type_that_stands_before_them(text: str, dtype: str) -> None:
    assert flopwise.profile(nn.ReLU(), [text]).graph.inputs[0].dtype == dtype


def test_packed_sequences() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 6, batch_first=True)

        def forward(self, x: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
            return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]

    assert flopwise.profile(Packed(), (2, 3, 4)).total("macs") == 5 * 4 * 6 * (4 + 6)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
        return torch.ops.quantized.add(whole, whole, 0.2, 0).dequantize()


@pytest.mark.filterwarnings("ignore::UserWarning")  # what PyTorch thinks of quantized tensors
def test_a_note_names_the_operator_that_needs_real_tensors() -> None:
    profile = flopwise.profile(Doubled(), (2, 3))
    assert profile.exact
    assert any("on meta tensors: given 2×3: quantized::add does not run on them;" in note for note in profile.notes)


def test_a_note_names_products_with_all_experts() -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(16, 8)
            self.experts = nn.Parameter(torch.rand(8, 16, 16))

        def forward(self, x: Any) -> Any:
            weight, _ = self.router(x).topk(2, -1)
            return torch.bmm(x[None].expand(8, -1, -1), self.experts).sum(0) * weight.sum()

    profile = flopwise.profile(Dense(), (5, 16))
    words = "1 product multiplies every token with all 8 experts, although the routing chooses 2 for each"
    assert any(f"mixture of experts: {words}" in note for note in profile.notes)


class Opaque(torch.Tensor):
    """Shows the type of its scale, stores whole numbers and the scale, as quantised weights do, and hides that."""

    @staticmethod
    def __new__(cls, q: Any, scale: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, q.shape, dtype=scale.dtype)

    def __init__(self, q: Any, scale: Any) -> None:
        self.q, self.scale = q, scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return type(args[0])(args[0].q, args[0].scale)

        def full(t: Any) -> Any:
            return t.q.to(t.scale.dtype) * full(t.scale) if isinstance(t, Opaque) else t

        return func(*torch.utils._pytree.tree_map(full, args), **(kwargs or {}))


class Stored(Opaque):
    """And says so."""

    def __tensor_flatten__(self) -> Any:
        return ["q", "scale"], None


def int8(rows: int, columns: int) -> Any:
    return torch.zeros(rows, columns, dtype=torch.int8)


@pytest.mark.parametrize(
    ("weight", "nbytes"),
    [
        (Stored(int8(32, 64), torch.rand(32, 1)), 32 * 64 + 32 * 4),
        (Stored(int8(32, 64), Stored(int8(32, 1), torch.rand(1, 1))), 32 * 64 + 32 + 4),
        (Opaque(int8(32, 64), torch.rand(32, 1)), 4 * 32 * 64),
    ],
    ids=["one", "in another", "hidden"],
)
def test_a_subclass_has_the_bytes_that_it_stores(weight: Any, nbytes: int) -> None:
    layer = nn.Linear(64, 32, bias=False).eval()
    layer.weight = nn.Parameter(weight, requires_grad=False)
    profile = flopwise.profile(layer, (2, 64))
    assert (profile.total("macs"), profile.total("params")) == (2 * 64 * 32, 64 * 32)
    assert profile.total("weight_bytes") == nbytes
    hidden = [note for note in profile.notes if "Opaque" in note]
    assert len(hidden) == (type(weight) is Opaque)


class Pinn(nn.Module):
    """The derivative of a network for its input, as physics-informed networks and force fields compute it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.a, self.b, self.function = nn.Linear(2, 8), nn.Linear(8, 1), function
        self.eval()

    def forward(self, x: Any) -> Any:
        x = x.requires_grad_()
        return torch.autograd.grad(self.b(self.function(self.a(x))).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize(
    ("name", "flops"),
    [("tanh", 3), ("relu", 1), ("sigmoid", 3), ("gelu", 11), ("leaky_relu", 2), ("hardtanh", 2), ("hardswish", 5)],
)
def test_gradients_in_a_forward_pass_cost_what_they_do_in_a_backward_pass(name: str, flops: int) -> None:
    function = getattr(nn.functional, name)
    profile = flopwise.profile(Pinn(function), (16, 2))
    assert profile.exact
    (row,) = [row for row in profile.rows if row.node.op.endswith("_backward")]
    assert row.flops == 16 * 8 * flops
    layer = flopwise.profile(nn.Sequential(nn.Linear(2, 8), Calls(function)), (16, 2), train=True).rows[-1]
    assert layer.backward_counts == row.counts


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("causal", [False, True])
def test_kernels_of_attention_that_are_called_by_name(causal: bool) -> None:
    aten, inputs = torch.ops.aten, ["q:f16:2x10x4x8", "k:f16:2x10x4x8", "v:f16:2x10x4x8"]
    for call in (
        lambda q, k, v: aten._flash_attention_forward(q, k, v, None, None, 10, 10, 0.0, causal, False)[0],
        lambda q, k, v: aten._efficient_attention_forward(q, k, v, None, None, None, 10, 10, 0.0, int(causal))[0],
    ):
        profile = flopwise.profile(call, inputs)
        assert profile.exact
        assert profile.total("macs") == 2 * 4 * 10 * 10 * 8 * 2
        assert profile.sum.needed_macs == (2 * 4 * 55 * 8 * 2 if causal else 12_800)


# Gradients flow through scripted parts of a module, which are watched below autograd.


pytest.importorskip("torch")


class Net(nn.Module):
    """A layer, one like it that may be a script, and an activation."""

    def __init__(self, scripted: bool, frozen: bool = False) -> None:
        super().__init__()
        self.first, second = nn.Linear(8, 8), nn.Linear(8, 8)
        second.requires_grad_(not frozen)
        self.second: Any = torch.jit.script(second) if scripted else second

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)).relu()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_script_costs_what_the_module_costs(frozen: bool) -> None:
    plain, scripted = (flopwise.profile(Net(s, frozen), (4, 8), train=True) for s in (False, True))
    assert plain.training is not None
    assert scripted.training is not None
    keys = ("backward", "backward_macs", "saved_bytes", "trained_params", "exact")
    figures = [p.to_dict()["training"] for p in (plain, scripted)]
    assert [figures[1][key] for key in keys] == [figures[0][key] for key in keys]


def test_what_is_detached_in_a_script_has_no_gradient() -> None:
    class Cut(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.detach() * 2).sum()

    profile = flopwise.profile(nn.Sequential(nn.Linear(4, 4), torch.jit.script(Cut())), (2, 4), train=True)
    assert [row.backward or 0 for row in profile.rows] == [0] * len(profile.rows)
    assert any("nothing runs backward" in note for note in profile.notes)
