"""The kernel that PyTorch chooses for an attention, by PyTorch's own conditions (aten/src/ATen/native/transformers)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from flopwise.formats.torch.record.remarks import kernel_of  # noqa: E402


@pytest.mark.parametrize(
    ("device", "dtype", "heads", "width", "mask", "kernel"),
    [
        ("cuda", torch.float16, (8, 8), 64, False, "flash"),
        ("cuda", torch.float16, (8, 8), 64, True, "efficient"),
        ("cuda", torch.float16, (8, 8), 256, False, "flash"),
        ("cuda", torch.float16, (8, 8), 512, False, "efficient"),
        ("cuda", torch.float32, (8, 8), 64, False, "efficient"),
        ("cuda", torch.float32, (8, 2), 64, False, "math"),
        ("cpu", torch.float32, (8, 8), 64, False, "flash"),
        ("mps", torch.float16, (8, 8), 64, False, "math"),
    ],
)
def test_kernels(device: str, dtype: object, heads: tuple[int, int], width: int, mask: bool, kernel: str) -> None:
    query = torch.empty(1, heads[0], 16, width, dtype=dtype, device="meta")
    key = torch.empty(1, heads[1], 16, width, dtype=dtype, device="meta")
    more = {"attn_mask": torch.empty(16, 16, dtype=dtype, device="meta")} if mask else {}
    if heads[0] != heads[1]:
        more["enable_gqa"] = True
    assert kernel_of(device, (query, key, key), more) == kernel


def test_the_kernel_of_a_cpu_drops_nothing_out() -> None:
    query = torch.empty(1, 8, 16, 64, device="meta")
    assert kernel_of("cpu", (query, query, query), {"dropout_p": 0.1}) == "math"
    assert kernel_of("cpu", (query, query, query[..., :32]), {}) == "math"
