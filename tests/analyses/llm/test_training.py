"""Training steps of language models, whole and on one rank of many."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.graphs import sketch  # noqa: E402
from tests.language_models import LLAMA, MIXTURE, UNFUSED, written  # noqa: E402

import flopwise  # noqa: E402
from flopwise.analyses.llm.training import TrainingStep, training_step  # noqa: E402
from flopwise.api.language.program import language_module  # noqa: E402
from flopwise.operators.counts import Counts  # noqa: E402


def _step(folder: Path, **options: Any) -> TrainingStep:
    return flopwise.llm(folder, train=True, prompt=32, batch=8, **options)


def test_the_step_is_that_of_a_profile(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA))
    inputs = {"input_ids": (8, 32), "labels": (8, 32), "use_cache": False}
    profile = flopwise.profile(tmp_path, inputs, train=True, optimizer="adamw")
    assert profile.training is not None
    assert step.forward_flops == profile.total("flops")
    assert step.backward_flops == profile.total("backward_flops")
    assert step.memory_bytes == profile.training.memory_bytes
    assert step.recomputed_flops == 0


def test_checkpoints_trade_memory_for_work_and_leave_the_module_alone(tmp_path: Path) -> None:
    plain, full = (_step(written(tmp_path, LLAMA), checkpointing=how) for how in ("none", "full"))
    assert full.saved_bytes < plain.saved_bytes
    assert full.recomputed_flops > 0
    assert full.model_flops == plain.model_flops
    module = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _step(module, checkpointing="full")  # type: ignore[arg-type]
        assert not module.is_gradient_checkpointing


def test_one_rank_of_one_is_the_whole(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), dp=1)
    assert step.rank is not None
    for key in ("params", "forward_flops", "backward_flops", "weight_bytes", "gradient_bytes", "saved_bytes"):
        assert getattr(step.rank, key) == getattr(step, key), key


def test_fsdp_divides_weights_gradients_and_state(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), fsdp=4)
    assert step.rank is not None
    assert step.rank.params == step.params // 4
    assert step.rank.gradient_bytes == step.gradient_bytes // 4
    assert step.rank.forward_flops == _quarter(tmp_path).forward_flops
    replicas = _step(tmp_path, dp=4).rank
    assert replicas is not None
    assert replicas.params == step.params
    assert replicas.saved_bytes == step.rank.saved_bytes == _quarter(tmp_path).saved_bytes


def _quarter(folder: Path) -> TrainingStep:
    return flopwise.llm(folder, train=True, prompt=32, batch=2)


def test_tensor_parallelism_follows_the_plan_of_the_model(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), tp=2)
    assert step.rank is not None
    norms = (2 * 2 + 1) * 64
    assert step.rank.params == (step.params - norms) // 2 + norms
    assert step.forward_flops / 2 < step.rank.forward_flops < step.forward_flops * 0.6
    with pytest.raises(flopwise.InputError, match=r"tp 7: 4 heads of .* do not divide by it; 2 and 4 do"):
        _step(tmp_path, tp=7)


def test_stages_share_the_layers(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), pp=2)
    assert step.rank is not None
    table, layer = 320 * 64, (step.params - 2 * 320 * 64 - 64) // 2
    assert step.rank.params in (table + layer, table + layer + 64)
    with pytest.raises(flopwise.InputError, match="the model has 2 layers"):
        _step(tmp_path, pp=4)


@pytest.mark.parametrize("pp", [2, 4])
def test_a_stage_keeps_no_more_than_its_layers_do_for_the_batch(tmp_path: Path, pp: int) -> None:
    model = written(tmp_path, {**LLAMA, "num_hidden_layers": 4})
    whole = flopwise.llm(model, train=True, prompt=32, batch=8)
    rank = flopwise.llm(model, train=True, prompt=32, batch=8, pp=pp).rank
    assert rank is not None
    layer = (
        whole.saved_bytes
        - flopwise.llm(written(tmp_path, {**LLAMA, "num_hidden_layers": 3}), train=True, prompt=32, batch=8).saved_bytes
    )
    assert rank.saved_bytes <= whole.saved_bytes - layer * (4 - 4 // pp)
    if rank.stage == 0:
        assert rank.saved_bytes >= layer * (4 // pp)


def test_experts_are_divided_among_the_ranks_of_a_batch(tmp_path: Path) -> None:
    step = _step(written(tmp_path, MIXTURE), dp=4, ep=4)
    experts = 2 * 8 * 3 * 64 * 96
    assert step.rank is not None
    assert step.rank.params == step.params - experts + experts // 4
    with pytest.raises(flopwise.InputError, match="experts are divided among"):
        _step(tmp_path, ep=4)


def test_a_model_without_experts_has_none_to_divide(tmp_path: Path) -> None:
    with pytest.raises(flopwise.InputError, match="ep 2: the model has no experts to divide"):
        _step(written(tmp_path, LLAMA), dp=2, ep=2)


def test_adapters_beside_a_quantised_base(tmp_path: Path) -> None:
    plain = _step(written(tmp_path, LLAMA))
    step = _step(tmp_path, lora="r=4,targets=q_proj,down_proj", weights="nf4", tp=2, fsdp=2)
    trained = 2 * 4 * (64 + 64 + 96 + 64)
    assert (step.trained_params, step.params) == (trained, plain.params + trained)
    assert (step.gradient_bytes, step.state_bytes) == (4 * trained, 2 * 4 * trained + 8 * 4)
    base = flopwise.llm(tmp_path, prompt=8, generate=0, weights="nf4").weight_bytes
    assert step.weight_bytes == base + 4 * trained < plain.weight_bytes
    assert step.backward_flops < plain.backward_flops
    assert step.rules_of_thumb == {}
    assert step.rank is not None
    divided = 2 * 4 * (64 + 96)  # queries' halves of what they make, and the networks' of what they take
    assert step.rank.trained_params == (trained - divided // 2) // 2
    content = step.to_dict()
    assert content["adapters"] == "LoRA of rank 4 on q_proj, down_proj, base in nf4"
    assert "trained parameters" in str(step)
    full = _step(tmp_path, lora="r=4", checkpointing="full")
    assert full.model_flops > _step(tmp_path, lora="r=4").model_flops  # gradients go on to the first layer's input
    assert 0 < full.recomputed_flops < full.forward_flops
    with pytest.raises(flopwise.InputError, match="give lora for a frozen base"):
        _step(tmp_path, weights="nf4")


def test_selective_checkpointing_says_that_it_keeps_no_less(tmp_path: Path) -> None:
    model = written(tmp_path, LLAMA)
    none, selective = (
        flopwise.llm(model, train=True, prompt=32, batch=2, checkpointing=how) for how in ("none", "selective")
    )
    assert selective.saved_bytes == none.saved_bytes
    assert selective.flops > none.flops
    assert any("keeps no less" in note for note in selective.notes)


def test_selective_checkpointing_is_for_fused_attention(tmp_path: Path) -> None:
    model = language_module(written(tmp_path, UNFUSED), None, False)
    with pytest.raises(flopwise.InputError, match="computes its attention operator by operator"):
        flopwise.llm(model, train=True, prompt=8, checkpointing="selective")


@pytest.mark.parametrize("shares", [{"dp": 3}, {"tp": 0}])
def test_what_does_not_divide(tmp_path: Path, shares: dict[str, int]) -> None:
    with pytest.raises(flopwise.InputError):
        _step(written(tmp_path, LLAMA), **shares)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"tp": 8}, r"tp 8: 4 heads of model.layers.0.self_attn do not divide by it; 2 and 4 do"),
        ({"pp": 2, "dp": 4}, r"pp 2: 1 sequence of a rank cannot be 2 equal micro-batches"),
    ],
)
def test_heads_and_micro_batches_are_not_cut(tmp_path: Path, shares: dict[str, int], words: str) -> None:
    with pytest.raises(flopwise.InputError, match=words):
        flopwise.llm(written(tmp_path, LLAMA), train=True, prompt=32, batch=4, **shares)


def test_rules_of_thumb(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA))
    rules, tokens = step.rules_of_thumb, 8 * 32
    n, attention = step.params, 12 * 2 * 4 * 16 * 32
    assert rules["6N"] == 6 * n * tokens
    assert rules["palm"] == rules["nanogpt"] == (6 * n + attention) * tokens
    assert rules["torchtitan"] == (6 * (n - 320 * 64) + attention) * tokens
    assert rules["megatron"] == round(72 * 2 * 64**2 * (1 + 32 / (6 * 64) + 320 / (12 * 2 * 64)) * tokens)


def test_the_utilisation_of_a_run(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), device="h100", tokens_per_second=1e6)
    assert step.run is not None
    assert step.run.utilisation == pytest.approx(step.model_flops / (8 * 32) * 1e6 / 989.4e12, rel=1e-3)
    assert _step(tmp_path, device="h100", measured=8 * 32 / 1e6).run == step.run
    faster = _step(tmp_path, device="h100", tokens_per_second=1e12).notes
    assert [any("faster than the devices' peak" in note for note in notes) for notes in (step.notes, faster)] == [
        False,
        True,
    ]
    for wrong, words in (({}, "needs a device"), ({"device": "h100", "measured": 1.0}, "say the same of a run")):
        with pytest.raises(flopwise.InputError, match=words):
            _step(tmp_path, tokens_per_second=1e6, **wrong)
    with pytest.raises(flopwise.InputError, match="measured 0 seconds: must be a number above 0"):
        _step(tmp_path, device="h100", measured=0.0)
    for rate, words in ((0.0, "must be a number above 0"), (float("nan"), "not nan"), (float("inf"), "not inf")):
        with pytest.raises(flopwise.InputError, match=words):
            _step(tmp_path, device="h100", tokens_per_second=rate)


def test_a_step_fits_its_devices_or_does_not(tmp_path: Path) -> None:
    step = _step(written(tmp_path, LLAMA), device="8xh100", fsdp=8)
    assert step.rank is not None
    assert step.room is not None
    assert step.run is None
    assert (step.room.devices, step.room.memory_bytes, step.room.fits) == (8, 85_520_809_984, True)
    assert step.room.must_fit_bytes == step.rank.memory_bytes
    assert step.to_dict()["device"]["left_over_bytes"] == 85_520_809_984 - step.rank.memory_bytes
    assert str(step).startswith("fits: 8 x NVIDIA H100 SXM5 80GB, on each ")
    large = {**LLAMA, "hidden_size": 8192, "intermediate_size": 32768, "num_attention_heads": 64, "head_dim": 128}
    big = _step(written(tmp_path, {**large, "num_hidden_layers": 16}), device="h100")
    assert big.room is not None
    assert not big.room.fits
    assert str(big).startswith("does not fit: NVIDIA H100 SXM5 80GB, ")
    with pytest.raises(flopwise.InputError, match="8xh100: these are 8 devices, not 4"):
        _step(tmp_path, device="8xh100", fsdp=4)


def test_tensor_parallelism_divides_training_and_serving_alike(tmp_path: Path) -> None:
    """Latent attention too, which transformers' plan repeats."""
    sizes = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    experts = {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}
    latent = {**LLAMA, **sizes, **experts, "head_dim": 8, "num_key_value_heads": 4, "moe_intermediate_size": 32}
    kind = {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "first_k_dense_replace": 1}
    folder = written(tmp_path, {**latent, **kind})
    step = _step(folder, tp=2)
    request = flopwise.llm(folder, prompt=32, generate=2, batch=8, device="2xh100", tp=2)
    assert step.rank is not None
    assert request.serving is not None
    assert step.rank.weight_bytes == request.serving.memory.weight_bytes
    assert step.rank.weight_bytes < 0.55 * step.weight_bytes


def test_a_request_and_a_training_step_take_arguments_of_their_own(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    with pytest.raises(TypeError, match="generate"):
        flopwise.llm(folder, train=True, generate=4)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="optimizer"):
        flopwise.llm(folder, optimizer="sgd")  # type: ignore[call-overload]


@pytest.mark.parametrize(("rules", "exact"), [({}, True), ({"Exp": lambda node, wanted: Counts(mul=32)}, False)])
def test_a_step_that_keeps_nobody_knows_how_much_is_not_exact(rules: Any, exact: bool) -> None:
    made = sketch({"x": (4, 8), "w": (8, 8), "a": (4, 8), "y": (4, 8)}, x="input", w="weight")
    made.node("MatMul", "x w", "a")
    made.node("Exp", "a", "y")
    profile = flopwise.profile(made.graph(), train=True, optimizer="sgd", backward_rules=rules)
    step = training_step(profile, name="sketch", source="hand", dtype="float32", batch=4, sequence=1, optimizer="sgd")
    assert profile.exact is exact
    assert step.exact is step.to_dict()["exact"] is exact
