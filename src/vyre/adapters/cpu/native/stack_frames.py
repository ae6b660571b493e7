"""How much of the stack a function takes, read from the machine code at its beginning.

Kernels touch every page of a large frame in order (the attribute ``probe-stack`` of LLVM), so that a frame beyond the
end of the stack is a fault and never another memory.  On x86-64 the size of such a frame is the operand of the
instruction that computes where the touching ends.
"""

from __future__ import annotations

import ctypes
from typing import Final

from vyre.adapters.cpu.native.features import X86_64, host

MOST_FRAME: Final = 2 << 20
"""The largest frame in bytes that a kernel may have: a quarter of the usual stack of a thread."""
_SUBTRACT_R11: Final = b"\x49\x81\xeb"
_LOOKED_AT: Final = 96
_PAGE: Final = 4096


def frame_bytes(address: int) -> int:
    """Returns the size of the frame of a loaded function in bytes; 0 if it is small, or on other processors.

    Only the page in which the function begins is read: it is 0 too where that ends before the instruction.
    """
    if host().arch != X86_64:
        return 0
    code = ctypes.string_at(address, min(_LOOKED_AT, _PAGE - address % _PAGE))
    position = code.find(_SUBTRACT_R11)
    if position < 0 or position + 7 > len(code):
        return 0
    return int.from_bytes(code[position + 3 : position + 7], "little")
