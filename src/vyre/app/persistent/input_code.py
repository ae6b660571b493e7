"""The code that writes the usual inputs of a job into its memory: arrays and numbers of exactly the declared types.

``HostInputs.views`` does the same in a loop over converters, and returns views that somebody else copies.  Here the
loop is unrolled: a function is written and compiled for each kind of signature, since a loop takes longer than some
jobs.  Whatever is not usual is left to ``views``, which converts it, or says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

import numpy as np

from vyre.app.host_arrays import PACKED, HostInputs, direct_type
from vyre.app.host_memory import host_dtype
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.ir.buffers import Buffer, element_of
from vyre.domain.ir.types import ScalarType

Writer: TypeAlias = Callable[[object, Sequence[memoryview]], bool]
_REFUSED: Final = (TypeError, ValueError, KeyError, OverflowError, struct.error, InvalidInput, InvalidResource)


def writer_of(inputs: HostInputs) -> Writer:
    """Returns a function of inputs and the memory for each: it writes them, and returns whether it did.

    It returns False for inputs that need a conversion or do not fit; what it has written by then is undefined.
    """
    kinds: list[str] = []
    constants: dict[str, Any] = {}
    for number, buffer in enumerate(inputs.buffers):
        kind, parts = _slot(buffer, inputs)
        kinds.append(kind)
        constants |= {f"{name}{number}": part for name, part in parts.items()}
    code = _code(tuple(kinds), inputs.names)
    known = {"__name__": __name__, "ndarray": np.ndarray, "memoryview": memoryview, "refused": _REFUSED}
    return FunctionType(code, {**known, "type": type, "len": len, **constants}, "write")


def _slot(buffer: Buffer, inputs: HostInputs) -> tuple[str, dict[str, Any]]:
    """Returns the kind of an input, "number", "array" or "converted", and what its code uses."""
    element = element_of(buffer)
    if buffer.is_push:
        return "number", {"direct": direct_type(element), "pack": PACKED[element].pack_into}
    if element is ScalarType.BOOL:
        return "converted", {"convert": lambda value: inputs.view(buffer.name, value)}
    return "array", {"dtype": host_dtype(element)}


@lru_cache(maxsize=256)
def _code(kinds: tuple[str, ...], names: tuple[str, ...]) -> CodeType:
    numbers = range(len(kinds))
    values = "".join(f"v{number}, " for number in numbers)
    targets = "".join(f"t{number}, " for number in numbers)
    checks = {
        "number": "type(v{0}) is not direct{0}",
        "array": "type(v{0}) is not ndarray or v{0}.dtype is not dtype{0}",
    }
    writes = {
        "number": "pack{0}(t{0}, 0, v{0})",
        "array": 't{0}[:] = memoryview(v{0}).cast("B")',
        "converted": "t{0}[:] = convert{0}(v{0})",
    }
    unusual = [checks[kind].format(number) for number, kind in enumerate(kinds) if kind in checks]
    lines = [
        "def write(inputs, targets):",
        "  try:",
        "    if type(inputs) is dict:",
        f"      if len(inputs) != {len(kinds)}: return False",
        *(f"      v{number} = inputs[{name!r}]" for number, name in enumerate(names)),
        "    elif type(inputs) is tuple or type(inputs) is list:",
        f"      ({values}) = inputs",
        "    else: return False",
        *([f"    if {' or '.join(unusual)}: return False"] if unusual else []),
        f"    ({targets}) = targets",
        *(f"    {writes[kind].format(number)}" for number, kind in enumerate(kinds)),
        "  except refused:",  # an array with gaps or without elements, of another length, or a number out of range
        "    return False",
        "  return True",
    ]
    module = compile("\n".join(lines), "<vyre inputs>", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))
