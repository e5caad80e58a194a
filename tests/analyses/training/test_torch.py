"""Training steps of PyTorch modules against FlopCounterMode around a real backward pass, and against autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import Any

import pytest

import flopwise
from flopwise.operators.counts import Counts

torch = pytest.importorskip("torch")

from tests.analyses.training.torch_facts import kept, measured, of_profile, overcounted  # noqa: E402 - as above
from torch import nn  # noqa: E402 - only where torch is
from torch.utils.checkpoint import (  # noqa: E402 - as above
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

ARCHITECTURES = (
    *("alexnet", "vgg16", "resnet18", "resnet50", "densenet121", "mobilenet_v2", "efficientnet_b0", "vit_b_16"),
    *("inception_v3", "googlenet", "squeezenet1_1", "shufflenet_v2_x1_0", "bert_base", "gpt2"),
)


def needs(package: str) -> None:
    """Skip the test where a package is missing."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def _inputs(args: Any, kwargs: Any) -> Any:
    return (args, kwargs) if kwargs else args


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_products_of_a_step_are_those_of_the_flop_counter(name: str) -> None:
    needs("torchvision")
    if name in ("bert_base", "gpt2"):
        needs("transformers")
    from tests.torch_models import MODELS

    with torch.device("meta"):
        model, args, kwargs = MODELS[name]()
        model.train()
        kwargs = {}  # a mask has elements, which a tensor on the meta device lacks
        if name in ("inception_v3", "googlenet"):  # one image alone has no statistics behind a global pooling
            args = tuple(torch.zeros(2, *a.shape[1:]) for a in args)
        profile = flopwise.profile(model, _inputs(args, kwargs), train=True)
        theirs = measured(model, args, kwargs)
    ours = of_profile(profile)
    assert ours.forward == theirs.forward
    assert ours.backward + overcounted(profile.graph) == theirs.backward
    assert profile.training is not None
    assert not profile.training.unknown
    counter = flopwise.profile(profile.graph, train=True, convention="torch")
    assert (counter.total("count"), counter.total("backward")) == (2 * theirs.forward, 2 * theirs.backward)


def test_a_step_is_three_times_the_forward_pass_but_for_the_first_layer() -> None:
    needs("torchvision")
    from tests.torch_models import MODELS

    for name, ratio in (("resnet50", 2.97), ("vit_b_16", 2.99)):
        with torch.device("meta"):
            model, args, _ = MODELS[name]()
            forward, backward = of_profile(flopwise.profile(model, args, train=True))
        assert round((forward + backward) / forward, 2) == ratio


@pytest.mark.parametrize(
    "name",
    ["alexnet", "vgg11", "resnet18", "densenet121", "mobilenet_v2", "efficientnet_b0", "shufflenet_v2_x1_0", "swin_t"],
)
def test_a_real_architecture_keeps_what_autograd_keeps(name: str) -> None:
    needs("torchvision")
    from tests.torch_vision import torchvision

    model = getattr(torchvision.models, name)(weights=None).train()
    image = torch.rand(2, 3, 64, 64)
    profile = flopwise.profile(model, (image,), train=True)
    assert profile.training is not None
    assert profile.training.saved_bytes == kept(model, (image,), {})


_TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}


@pytest.mark.parametrize(
    ("kind", "config", "sizes", "exact"),
    [
        ("BertModel", "BertConfig", _TEXT, True),
        ("GPT2Model", "GPT2Config", {**_GPT2, "bos_token_id": 0, "eos_token_id": 0}, True),
        ("LlamaModel", "LlamaConfig", {**_TEXT, "num_key_value_heads": 2}, True),
        ("LlamaForCausalLM", "LlamaConfig", {**_TEXT, "num_key_value_heads": 2}, False),
        ("T5ForConditionalGeneration", "T5Config", {**_T5, "decoder_start_token_id": 0}, False),
    ],
)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_language_model_steps_as_autograd_does(
    kind: str, config: str, sizes: dict[str, int], exact: bool, attention: str
) -> None:
    needs("transformers")
    needs("torchvision")
    import tests.torch_vision  # transformers imports it
    import transformers

    del tests
    model = getattr(transformers, kind)(getattr(transformers, config)(**sizes, attn_implementation=attention)).train()
    tokens = torch.arange(32).reshape(2, 16)
    given = {"input_ids": tokens, **({"labels": tokens} if "For" in kind else {})}
    profile = flopwise.profile(model, ((), given), train=True)
    assert profile.training is not None
    assert not profile.training.unknown
    if exact:
        assert profile.training.saved_bytes == kept(model, (), given)
    with torch.device("meta"):
        theirs = measured(model.to("meta"), (), {name: value.to("meta") for name, value in given.items()})
    assert of_profile(profile) == theirs


class Detached(nn.Module):
    """A branch whose gradient is cut, and one that runs without any."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            z = self.c(x)
        return self.b(self.a(x).detach()) + z


class DeadEnd(nn.Module):
    """A result that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        self.b(x)
        return self.a(x)


class Tied(nn.Module):
    """One weight used twice, and one of its results twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.a(x).tanh()
        return self.a(y) * y


class Written(nn.Module):
    """Results written into slices of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        out = torch.zeros(4, 2, 8)
        out[:, 0] = self.a(x)
        out[:, 1] = self.b(x)
        return out * 2


def _sequence(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def _half_frozen() -> nn.Module:
    head = nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)
    model = _sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *head)
    for weight in [*model[0].parameters(), *model[1].parameters()]:
        weight.requires_grad_(False)
    return model


def _frozen_but_the_head() -> nn.Module:
    model = _sequence(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Linear(8, 2))
    for layer in list(model)[:-1]:
        layer.requires_grad_(False)
    return model


def _frozen_in_the_middle() -> nn.Module:
    model = _sequence(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    model[2].requires_grad_(False)
    return model


class Attended(nn.Module):
    """Attention of four heads over the keys of two, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


class Cells(nn.Module):
    """One step of each recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(8, 6), nn.GRUCell(6, 5), nn.RNNCell(5, 4)

    def forward(self, x: Any) -> Any:
        return self.rnn(self.gru(self.lstm(x)[0]))


class Summed(nn.Module):
    """An Einstein sum of two results, and batched products whose batch is broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.w = nn.Linear(8, 8), nn.Parameter(torch.rand(3, 8, 5))

    def forward(self, x: Any) -> Any:
        y = torch.einsum("ij,kj->ik", self.a(x), x)
        return torch.baddbmm(torch.zeros(3, 1, 1), x.expand(3, -1, -1), self.w) + (y @ x)[..., :5]


def _perceptron() -> nn.Module:
    return _sequence(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1))


def _groups() -> nn.Module:
    return _sequence(nn.Conv2d(3, 6, 3, groups=3), nn.GroupNorm(2, 6), nn.SiLU(inplace=True))


def _pools() -> nn.Module:
    return _sequence(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1), nn.AvgPool2d(2))


def _encoder(dropout: float) -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 32, dropout=dropout, batch_first=True)


_ROWS, _IMAGE = (4, 8), (2, 3, 9, 9)

#: Name -> builder, shape of the input, and whether the kept storages are PyTorch's to the byte.
SMALL: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "detached": (Detached, _ROWS, False),  # what the cut branch kept is freed at once
    "dead end": (DeadEnd, _ROWS, True),
    "tied": (Tied, _ROWS, True),
    "written": (Written, _ROWS, True),
    "half frozen": (_half_frozen, _IMAGE, True),
    "frozen but the head": (_frozen_but_the_head, _ROWS, True),
    "frozen in the middle": (_frozen_in_the_middle, _ROWS, True),
    "encoder": (lambda: _encoder(0.0), (2, 5, 16), True),
    "encoder with dropout": (lambda: _encoder(0.1), (2, 5, 16), True),
    "attended": (Attended, (2, 5, 16), False),  # heads that are split off are copied before they are scaled
    "cells": (Cells, _ROWS, False),
    "summed": (Summed, _ROWS, False),
    "perceptron": (_perceptron, _ROWS, True),
    "groups": (_groups, _IMAGE, True),
    "transposed": (lambda: _sequence(nn.ConvTranspose2d(3, 5, 3, stride=2), nn.ReLU6(inplace=True)), _IMAGE, True),
    "pools": (_pools, _IMAGE, True),
    "upsampled": (lambda: _sequence(nn.Conv2d(3, 4, 1), nn.Upsample(scale_factor=2), nn.Conv2d(4, 2, 1)), _IMAGE, True),
    "lstm": (lambda: nn.LSTM(8, 6, 2, bidirectional=True), (5, 3, 8), False),  # its steps are kept one by one
    "gru": (lambda: nn.GRU(8, 6, batch_first=True), (5, 3, 8), False),
    "rnn": (lambda: nn.RNN(8, 6, bias=False), (5, 3, 8), False),
    "projected": (lambda: nn.LSTM(8, 6, proj_size=4), (5, 3, 8), False),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("of_input", [False, True])
def test_a_small_module_steps_as_autograd_does(name: str, of_input: bool) -> None:
    build, shape, exact = SMALL[name]
    with torch.device("meta"):
        model = build().train()
        x = torch.zeros(shape, requires_grad=of_input)
        theirs = measured(model, (x,), {})
        profile = flopwise.profile(model, (x,), train=True)
    assert profile.training is not None
    assert not profile.training.unknown
    ours = of_profile(profile)
    assert (ours.forward, ours.backward + overcounted(profile.graph)) == theirs
    if exact:
        torch.manual_seed(0)
        assert profile.training.saved_bytes == kept(build().train(), (torch.rand(shape, requires_grad=of_input),), {})


def test_a_frozen_batch_norm_keeps_its_statistics() -> None:
    model = _sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    model[1].eval()
    batch, stored = (flopwise.profile(model, _IMAGE, train=True, mode=mode) for mode in ("train", "as-is"))
    n = 2 * 4 * 7 * 7
    assert stored.rows[1].backward_counts == Counts(mul=n + n + 4, add=2 * n + n)
    assert batch.rows[-2].backward_counts == Counts(mul=3 * n + 4 * 4, add=5 * n, div=2 * 4)
    assert model.training
    assert not model[1].training


def test_a_model_without_trained_weights_runs_nothing_backward() -> None:
    model = nn.Linear(8, 8).requires_grad_(False)
    profile = flopwise.profile(model, _ROWS, train=True)
    assert profile.training is not None
    assert (profile.total("backward_flops"), profile.training.saved_bytes, profile.training.weights) == (0, 0, ())
    assert any("nothing runs backward" in note for note in profile.notes)


def test_modules_add_their_backward_passes_up() -> None:
    with torch.device("meta"):
        profile = flopwise.profile(_encoder(0.1), (2, 5, 16), train=True)
    modules = {m.name: m for m in profile.by("module")}
    assert modules[""].backward_flops == profile.total("backward_flops")
    parts = ("self_attn", "linear1", "linear2", "norm1", "norm2", "dropout", "dropout1", "dropout2")
    own = sum(row.backward_flops or 0 for row in profile.rows if row.node.module == "")
    assert sum(modules[p].backward_flops for p in parts) + own == modules[""].backward_flops


class Doubled(torch.autograd.Function):
    """A gradient that the user writes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


class WithFunction(nn.Module):
    """Layers on both sides of a gradient that the user writes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.b(Doubled.apply(self.a(x)))


def test_a_gradient_that_the_user_writes_is_unknown_and_what_lies_before_it_is_not() -> None:
    profile = flopwise.profile(WithFunction(), _ROWS, train=True)
    assert profile.training is not None
    assert sum(profile.training.unknown.values()) == 1
    with torch.device("meta"):
        assert of_profile(profile) == measured(WithFunction(), (torch.zeros(_ROWS),), {})


class Checkpointed(nn.Module):
    """Stretches whose results are thrown away and computed once more."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(8, 8)
        self.a = _sequence(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8), nn.Tanh())
        self.b = _sequence(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for stretch in (self.a, self.b):
            x = checkpoint(stretch, x, use_reentrant=self.reentrant)
        return x * 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_computed_once_more(reentrant: bool) -> None:
    with torch.device("meta"):
        model, x = Checkpointed(reentrant), torch.zeros(_ROWS)
        profile = flopwise.profile(model, (x,), train=True)
        assert of_profile(profile) == measured(model, (x,), {})
    torch.manual_seed(0)
    assert profile.training is not None
    assert profile.training.saved_bytes == kept(Checkpointed(reentrant), (torch.rand(_ROWS),), {})


_ATEN = torch.ops.aten


class Selective(nn.Module):
    """Checkpoints that keep some results, and checkpoints in checkpoints."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.before = nn.Linear(8, 8)
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 16, bias=False)
        self.after = nn.Linear(16, 8)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)

    def block(self, x: Any) -> Any:
        return self.b(nn.functional.gelu(self.a(x)))

    def forward(self, x: Any) -> Any:
        return self.after(getattr(self, self.way)(x))

    def again(self, function: Any, x: Any, *kept: Any, **options: Any) -> Any:
        if kept:
            options["context_fn"] = partial(create_selective_checkpoint_contexts, list(kept))
        return checkpoint(function, x, use_reentrant=False, **options)

    def one_product(self, x: Any) -> Any:
        return self.again(self.block, x, _ATEN.mm.default)

    def both_products(self, x: Any) -> Any:
        return self.again(self.block, x, _ATEN.mm.default, _ATEN.addmm.default)

    def convolution(self, x: Any) -> Any:
        return self.again(lambda z: self.a(self.conv(z.mT).mT.relu()), x, _ATEN.convolution.default)

    def every_other_product(self, x: Any) -> Any:
        numbers = {True: count(), False: count()}

        def policy(context: Any, kernel: Any, *args: Any, **kwargs: Any) -> bool:
            return kernel is _ATEN.addmm.default and next(numbers[context.is_recompute]) % 2 == 0

        contexts = partial(create_selective_checkpoint_contexts, policy)
        again = partial(checkpoint, use_reentrant=False, context_fn=contexts)
        return self.a(again(lambda z: self.before(self.before(self.before(z).relu()).relu()).relu(), x))

    def nested(self, x: Any) -> Any:
        return self.again(lambda z: self.again(self.block, z), x)

    def nested_in_the_middle(self, x: Any) -> Any:
        return self.again(lambda z: self.b(self.again(self.block, self.before(z)).relu()).tanh(), x)

    def two_inside(self, x: Any) -> Any:
        return self.again(lambda z: self.again(self.block, self.before(z)) + self.again(self.block, self.before(z)), x)

    def three_deep(self, x: Any) -> Any:
        inner = lambda y: self.again(self.block, self.before(y))  # noqa: E731 - one of three
        return self.again(lambda z: self.again(inner, self.before(z)), x)

    def selective_inside(self, x: Any) -> Any:
        return self.again(lambda z: self.again(self.block, self.before(z), _ATEN.mm.default), x)

    def selective_around(self, x: Any) -> Any:
        return self.again(lambda z: self.again(self.block, self.before(z)), x, _ATEN.mm.default, _ATEN.addmm.default)

    def to_the_end(self, x: Any) -> Any:
        with set_checkpoint_early_stop(False):
            return self.again(self.block, x)

    def attention(self, x: Any) -> Any:
        return self.attended(x, _ATEN._scaled_dot_product_flash_attention.default)

    def attention_again(self, x: Any) -> Any:
        return self.attended(x, _ATEN.addmm.default)

    def attended(self, x: Any, kept: Any) -> Any:
        def function(z: Any) -> Any:
            q = self.before(z)[:, None]
            return self.a(nn.functional.scaled_dot_product_attention(q, q, q)[:, 0])

        return self.again(function, x, kept)


@pytest.mark.parametrize(
    "way",
    [
        *("one_product", "both_products", "convolution", "every_other_product", "nested", "nested_in_the_middle"),
        *("two_inside", "three_deep", "selective_inside", "selective_around", "to_the_end"),
    ],
)
def test_checkpoints_compute_again_what_pytorch_does(way: str) -> None:
    with torch.device("meta"):
        model, x = Selective(way), torch.zeros(2, 4, 8)
        profile = flopwise.profile(model, (x,), train=True)
        assert of_profile(profile) == measured(model, (x,), {})
    assert profile.training is not None
    assert profile.training.exact


def test_what_a_selective_checkpoint_keeps_is_kept() -> None:
    """What enters it, 256 bytes, and the results of the products: 512 bytes each."""
    kept_bytes = {
        way: profile.training.saved_bytes
        for way in ("nested", "one_product", "both_products")
        if (profile := flopwise.profile(Selective(way), (2, 4, 8), train=True)).training is not None
    }
    assert kept_bytes == {"nested": 256 + 512, "one_product": 256 + 512, "both_products": 256 + 512 + 512}


def test_a_selective_checkpoint_is_asked_for_the_kernel_that_attention_has_on_a_device() -> None:
    kept, again = (flopwise.profile(Selective(way), (2, 4, 8), train=True) for way in ("attention", "attention_again"))
    forward = {row.node.op: row.macs for row in kept.rows}["Attention"]
    for profile, times in ((kept, 2), (again, 3)):
        (row,) = [row for row in profile.rows if row.node.op == "Attention"]
        assert row.backward_macs == times * (forward or 0)
