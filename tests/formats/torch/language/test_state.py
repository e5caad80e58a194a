"""The state of language models, beside the one that the same model makes when it really runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tests.torch_vision  # noqa: E402, F401 # before a model of transformers asks for it
from tests.language_models import ENCODER_DECODER, LATENT, LLAMA, MIXTURE, STATE_SPACE, WINDOW, written  # noqa: E402

import flopwise  # noqa: E402
from flopwise.formats.torch.arguments import STATES  # noqa: E402
from flopwise.formats.torch.language.model import built  # noqa: E402
from flopwise.formats.torch.language.state import encoder_inputs, state_tensors, step  # noqa: E402

#: Formulas in images: the program takes tokens beside the image, which its encoder does not read.
FORMULAS = {
    "model_type": "pp_formulanet",
    "text_config": {"model_type": "pp_formulanet_text", "d_model": 32, "decoder_layers": 1, "vocab_size": 64}
    | {"decoder_attention_heads": 2, "decoder_ffn_dim": 32, "max_position_embeddings": 64},
    "vision_config": {"model_type": "pp_formulanet_vision", "hidden_size": 32, "num_hidden_layers": 1, "mlp_dim": 32}
    | {"num_attention_heads": 2, "output_channels": 16, "image_size": 64, "window_size": 2, "global_attn_indexes": [0]}
    | {"post_conv_in_channels": 16, "post_conv_mid_channels": 16, "post_conv_out_channels": 32}
    | {"decoder_hidden_size": 32},
}

CONFIGS = {
    "llama": LLAMA,
    "window": WINDOW,
    "mixture": MIXTURE,
    "latent": LATENT,
    "state space": STATE_SPACE,
    "encoder and decoder": ENCODER_DECODER,
}


def _config(content: dict[str, Any]) -> Any:
    return transformers.CONFIG_MAPPING[content["model_type"]].from_dict(content)


@pytest.mark.upstream
@pytest.mark.parametrize("name", CONFIGS)
def test_the_state_is_the_one_of_a_real_run(name: str) -> None:
    config = _config(CONFIGS[name])
    made = step(built(config, name), past=21, new=1, batch=2)
    torch.manual_seed(0)
    real = type(built(config, name))(config).to(torch.bfloat16 if "torch_dtype" in CONFIGS[name] else torch.float32)
    ids = torch.zeros(2, 21, dtype=torch.long)
    inputs = {"input_ids": ids, "decoder_input_ids": ids} if name == "encoder and decoder" else {"input_ids": ids}
    with torch.no_grad():
        result = real(**inputs, use_cache=True)
    key = next(key for key in STATES[:3] if dict(result.items()).get(key) is not None)
    assert made.state_bytes == sum(tensor.nbytes for _, tensor in state_tensors(result[key], key))
    assert made.state_bytes > 0


@pytest.mark.parametrize("name", CONFIGS)
def test_two_calls_agree_and_the_state_stays_as_it_was(name: str) -> None:
    model = built(_config(CONFIGS[name]), name)
    call = step(model, past=21, new=1)
    before = {name: tensor.shape for name, tensor in call.state.items()}
    first, second = (flopwise.profile(model, call.inputs) for _ in range(2))
    assert first.total("macs") == second.total("macs") > 0
    assert {name: tensor.shape for name, tensor in call.state.items()} == before
    assert first.state_bytes == call.state_bytes


def test_a_step_reads_the_tokens_in_the_state() -> None:
    model = built(_config(LLAMA), "llama")
    macs = [flopwise.profile(model, step(model, past, 1).inputs).total("macs") for past in (10, 11, 12)]
    heads, width, layers = 4, 16, 2
    assert macs[1] - macs[0] == macs[2] - macs[1] == 2 * heads * width * layers


@pytest.mark.upstream
def test_past_and_new_of_any_command(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    profile = flopwise.profile(folder, past=32, new=1, batch_size=3)
    states = [entry for entry in profile.to_dict()["inputs"] if entry.get("kind") == "state"]
    assert [entry["shape"] for entry in states] == [[3, 2, 32, 16]] * 4
    assert profile.to_dict()["totals"]["state_bytes"] == 4 * 3 * 2 * 32 * 16 * 2
    with pytest.raises(flopwise.InputError, match="give no others"):
        flopwise.profile(folder, {"input_ids": (1, 1)}, past=8)


@pytest.mark.parametrize(("past", "new", "batch"), [(-1, 1, 1), (0, 0, 1), (4, 1, 0)])
def test_numbers_out_of_range(past: int, new: int, batch: int) -> None:
    with pytest.raises(flopwise.InputError, match="at least"):
        step(built(_config(LLAMA), "llama"), past, new, batch)


def test_more_tokens_than_the_model_was_made_for(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    note = "513 tokens are more than the 512 that the model was made for"
    assert note in flopwise.profile(folder, past=512, new=1).notes
    assert not any("made for" in each for each in flopwise.profile(folder, past=511, new=1).notes)


def test_the_encoder_of_an_image_gets_one_though_the_program_takes_tokens_too() -> None:
    if FORMULAS["model_type"] not in transformers.CONFIG_MAPPING:
        pytest.skip("needs transformers with PP-FormulaNet")
    model = built(_config(FORMULAS), "formulas")
    assert encoder_inputs(model, 16, 2)["pixel_values"] == (2, 3, 64, 64)
    assert step(model, 4, 1).state_bytes == 2 * (4 + 1) * 32 * 4  # keys and values of 4 tokens and of 1 place of 64x64


def test_a_model_that_takes_no_tokens() -> None:
    sizes = {"model_type": "vit", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    with pytest.raises(flopwise.InputError, match="takes pixel_values, not tokens"):
        step(built(_config({**sizes, "intermediate_size": 32}), "vit"), 4)


def _renamed(name: str) -> Any:
    """LLaMA as a release of transformers would have it that calls its state by another name."""
    model = built(_config(LLAMA), "llama")
    before = next(key for key in STATES if key in inspect.signature(model.forward).parameters)
    own = type(model).forward

    def forward(self: Any, input_ids: Any = None, use_cache: bool | None = None, **more: Any) -> Any:
        result = own(self, input_ids, use_cache=use_cache, **{before: more.get(name)})
        return {"logits": result.logits, name: result[before]}

    parameters = [*inspect.signature(forward).parameters.values()][:3]
    parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    model.__class__ = type("RenamedForCausalLM", (type(model),), {"forward": forward})
    return model


@pytest.mark.upstream
@pytest.mark.parametrize("name", ["cache", "past_key_values", "cache_params"])
def test_a_cache_is_known_by_all_names_that_releases_of_transformers_gave_it(name: str) -> None:
    plain, renamed = (step(model, 21, 1, 2) for model in (built(_config(LLAMA), "llama"), _renamed(name)))
    assert name in renamed.inputs
    assert {key: tensor.shape for key, tensor in renamed.state.items()} == {
        f"past_key_values.layers.{layer}.{part}": (2, 2, 21, 16) for layer in (0, 1) for part in ("keys", "values")
    }
    assert renamed.state.keys() == plain.state.keys()
    profile = flopwise.profile(_renamed(name), renamed.inputs)
    assert profile.total("macs") == flopwise.profile(built(_config(LLAMA), "llama"), plain.inputs).total("macs")
    assert profile.state_bytes == plain.state_bytes == 4 * 2 * 2 * 21 * 16 * 2
    request = flopwise.llm(_renamed(name), prompt=21, generate=2).to_dict()
    assert request["cache"]["bytes_per_token"] == 2 * 2 * 2 * 16 * 2


def test_a_state_under_a_name_that_nobody_knows_is_an_error() -> None:
    """A release that renames it must not take the cache out of the figures."""
    why = f"RenamedForCausalLM of transformers {transformers.__version__} returns no state that flopwise knows"
    for call in (
        lambda: step(_renamed("memory"), 4),
        lambda: flopwise.llm(_renamed("memory"), prompt=8, generate=1),
        lambda: flopwise.profile(_renamed("memory"), past=8),
        lambda: flopwise.formula(_renamed("memory"), past="past"),
    ):
        with pytest.raises(flopwise.InputError, match=re.escape(why)):
            call()
    assert flopwise.llm(_renamed("memory"), prompt=8, generate=0).to_dict()["decode"] is None


def test_a_user_s_own_cache_keeps_its_name() -> None:
    class Own(torch.nn.Module):
        def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            return x @ cache

    profile = flopwise.profile(Own(), {"x": (2, 4), "cache": (4, 8)})
    assert [(t.name, t.kind) for t in profile.graph.inputs] == [("x", "input"), ("cache", "state")]


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
        | {"intermediate_size": 32},
        {"model_type": "openai-gpt", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 64},
    ],
    ids=lambda content: content["model_type"],
)
def test_a_model_without_a_state(content: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(flopwise.InputError, match=r"of transformers \S+ returns no state that flopwise knows"):
        step(built(_config(content), "model"), 4)
    if content["model_type"] == "openai-gpt":  # it predicts tokens, and reads all of them for each
        with pytest.raises(flopwise.InputError, match=r"OpenAIGPTLMHeadModel .* --generate 0"):
            flopwise.llm(written(tmp_path, content), prompt=8, generate=1)
        assert flopwise.llm(written(tmp_path, content), prompt=8, generate=0).to_dict()["decode"] is None
