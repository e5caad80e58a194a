"""GGUF files as models: the program of the architecture in the header, and the bytes of the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

pytest.importorskip("transformers")
pytest.importorskip("gguf")

from tests.cli.conftest import Run, run
from tests.language_models import written

import flopwise

__all__ = ["run"]  # a fixture

HIDDEN, FFN, LAYERS, HEADS, GROUPS, VOCABULARY = 256, 512, 2, 4, 2, 320


def made(path: Path, kind: str = "Q8_0", architecture: str = "llama", without: str = "", lacking: str = "") -> Path:
    """A small model as llama.cpp stores one: matrices in blocks of a type, norms in single precision."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    if lacking != "feed_forward_length":
        writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    writer.add_array("tokenizer.ggml.tokens", [f"token {i}" for i in range(VOCABULARY)])
    code = gguf.GGMLQuantizationType[kind]
    elements, nbytes = gguf.constants.GGML_QUANT_SIZES[code]
    narrow = HIDDEN // HEADS * GROUPS
    matrices = {"token_embd": (VOCABULARY, HIDDEN), "output": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        shapes = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (narrow, HIDDEN), "attn_v": (narrow, HIDDEN)}
        shapes |= {"attn_output": (HIDDEN, HIDDEN), "ffn_gate": (FFN, HIDDEN), "ffn_up": (FFN, HIDDEN)}
        matrices |= {f"blk.{layer}.{name}": shape for name, shape in {**shapes, "ffn_down": (HIDDEN, FFN)}.items()}
    matrices.pop(without, None)
    for name, (rows, columns) in matrices.items():
        writer.add_tensor(
            f"{name}.weight", numpy.zeros((rows, columns // elements * nbytes), numpy.uint8), raw_dtype=code
        )
    norms = [f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")]
    for name in ("output_norm", *norms):
        writer.add_tensor(f"{name}.weight", numpy.ones(HIDDEN, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "Q6_K", "F16"])
def test_bytes_are_those_of_the_file(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path / "model.gguf", kind)
    result = flopwise.llm(path, prompt=16, generate=1)
    assert result.weight_bytes == pytest.approx(path.stat().st_size, rel=0.01)
    assert result.dtype == "float16"


@pytest.mark.upstream
def test_it_is_the_model_of_its_configuration_in_every_command(tmp_path: Path, run: Run) -> None:
    path = made(tmp_path / "model.gguf")
    llama = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS}
    llama |= {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "vocab_size": VOCABULARY}
    same = flopwise.profile(written(tmp_path, llama), past=32, new=1)
    ours = flopwise.profile(path, past=32, new=1)
    assert ours.total("macs") == same.total("macs") > 0
    assert ours.total("params") == same.total("params")
    assert ours.state_bytes == same.state_bytes  # both in half precision
    formula = run("formula", path, "--past", "past", "--new", "1", "-b", "1", "-f", "json")
    assert formula.code == 0, formula.err
    for command in (["profile", path], ["memory", path, "--past", "8"], ["table", path], ["compare", path, path]):
        result = run(*command)
        assert result.code == 0, result.err
        assert "bug" not in result.err
    assert any("stores them in" in note for note in flopwise.profile(path).notes)
    assert "token_embd.weight" in run("weights", path, "--by", "tensor", "--no-histogram").out


def test_a_header_without_a_size_is_refused_by_its_key(tmp_path: Path, run: Run) -> None:
    path = made(tmp_path / "model.gguf", lacking="feed_forward_length")
    result = run("llm", path)
    assert result.code == 2
    assert result.err == f"flopwise: {path}: its header lacks llama.feed_forward_length\n"


def test_an_unknown_architecture_lists_tensors_or_says_so(tmp_path: Path, run: Run) -> None:
    path = made(tmp_path / "model.gguf", architecture="llamas")
    profile = flopwise.profile(path)
    assert profile.total("params") > 0
    assert not profile.exact
    assert any("GGUF's architecture 'llamas' is not in the table; near: llama" in note for note in profile.notes)
    for command in (["llm", path], ["profile", path, "--past", "4"]):
        result = run(*command)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "'flopwise weights" in result.err


def test_no_package_is_needed_for_an_architecture_of_the_table(tmp_path: Path) -> None:
    path = made(tmp_path / "model.gguf")
    code = (
        "import sys; sys.modules['transformers'] = sys.modules['torch'] = sys.modules['gguf'] = None; import flopwise; "
        f"path = {str(path)!r}; "
        "print(flopwise.llm(path, prompt=8, generate=1).params, flopwise.profile(path).total('params'))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len(set(out)) == 1


def test_a_damaged_file(tmp_path: Path, run: Run) -> None:
    whole = made(tmp_path / "model.gguf").read_bytes()
    path = tmp_path / "short.gguf"
    path.write_bytes(whole[: len(whole) // 2])
    for command in ("llm", "profile", "memory"):
        result = run(command, path)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "truncated" in result.err


def test_a_file_that_lacks_a_tensor_of_its_model(tmp_path: Path) -> None:
    whole = flopwise.llm(made(tmp_path / "whole.gguf"), prompt=8, generate=1)
    assert not any("that its header describes" in note for note in whole.notes)
    result = flopwise.llm(made(tmp_path / "model.gguf", without="blk.1.ffn_up"), prompt=8, generate=1)
    held = whole.params - FFN * HIDDEN
    expected = f"model.gguf holds {held:,} weights, and the model that its header describes has {whole.params:,}"
    note = next(note for note in result.notes if expected in note)
    assert "blk.1.ffn_up.weight is missing" in note
