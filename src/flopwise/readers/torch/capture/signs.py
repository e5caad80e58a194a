"""Whether a program wrote an operator as a sign (``a + b``) or called the method (``a.add(b)``).

PyTorch hands both over as ``torch.Tensor.add``. Tools that replace the methods of the class see the call and miss the
sign, so conventions that reproduce them (ptflops, deepspeed) need the difference; the instruction that the program is
at is the only place where it shows.
"""

from __future__ import annotations

import dis
import types

from flopwise.readers.torch.capture.functions import SIGNS

#: Method -> the sign that a program writes for it. Reflected operators (``__radd__``) end in the same methods.
SIGN_OF_METHOD = {bare: sign for sign, bare in SIGNS.items() if not sign.startswith("__r") or sign == "__rshift__"}

#: The codes of the instructions that signs become.
_INSTRUCTIONS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("BINARY_", "INPLACE_")) and "SUBSCR" not in name
)


def is_sign(frame: types.FrameType) -> bool:
    """Whether the instruction that a frame is at is a sign."""
    return frame.f_code.co_code[frame.f_lasti] in _INSTRUCTIONS
