"""Profile the example models from Python: python examples/profile_in_python.py."""

from __future__ import annotations

from pathlib import Path

from spline_rule import RULES

import flopwise

HERE = Path(__file__).parent


def main() -> None:
    """Totals, groups by operator and by module, other input shapes, other conventions, and an operator of our own."""
    resnet = flopwise.profile(HERE / "tiny_resnet.onnx")
    print(
        f"tiny_resnet: {resnet.total('macs'):,} MAC, {resnet.total('flops'):,} FLOP, {resnet.total('params'):,} params"
    )

    print("\nby operator")
    for group in resnet.by("op")[:3]:
        print(f"  {group.name:<20} {len(group.rows):>3} layers {group.macs:>12,} MAC")

    print("\nby module")
    for group in resnet.by("module", depth=1):
        print(f"  {group.name or '(model)':<20} {group.params:>8,} params {group.macs:>12,} MAC")

    print("\ntransformer_block, one sequence")
    for sequence in (128, 256, 512):
        block = flopwise.profile(HERE / "transformer_block.onnx", dims={"batch": 1, "sequence": sequence})
        print(f"  of {sequence} tokens: {block.total('macs'):>12,} MAC, peak {block.peak_activation_bytes:>10,} bytes")

    print("\nin other conventions")
    for convention in ("flops", "textbook", "benanza"):
        counted = flopwise.profile(HERE / "tiny_resnet.onnx", convention=convention)
        print(f"  {counted.total('count'):>12,} {counted.convention.unit} ({convention})")

    print("\ncustom_op")
    custom = flopwise.profile(HERE / "custom_op.onnx")
    print(f"  without a rule: at least {custom.total('flops'):,} FLOP, unknown {dict(custom.unknown)}")
    custom = flopwise.profile(HERE / "custom_op.onnx", rules=RULES)
    print(f"  with our rule:  exactly  {custom.total('flops'):,} FLOP")


if __name__ == "__main__":
    main()
