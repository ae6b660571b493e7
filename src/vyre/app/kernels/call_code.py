"""The code of the usual call of a kernel: all arrays are given, own their memory, and need no conversion.

``CallPlan.run`` does the same in loops over the parameters.  Here the loops are unrolled: a function is written and
compiled for each kind of signature, as ``dataclasses`` do for their methods, since the loops cost a third of what a
short launch may.  The text of the function depends on the kinds and positions of parameters only.  Every other call is
passed on to ``run``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from vyre.domain.errors import InvalidInput


class BoundArgument(NamedTuple):
    """The argument or the number that is bound to one buffer.

    ``position`` is that of the argument, None for a number that is known.  ``kind``: "number", "converted", "known",
    "read", "updated" or "output".  ``fixed``: of a number its conversion, which has the ``last`` one and its bytes; any
    other conversion; the bytes of what is known; or the type of an array.
    """

    kind: str
    position: int | None
    fixed: object


def usual_call(
    arity: int,
    arguments: Sequence[BoundArgument],
    written: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    parts: dict[str, Any],
) -> Callable[..., Any]:
    """Returns the function.

    ``written``: positions of the arrays that are written, in the order of results.  ``pairs``: positions of arguments
    that must not share memory.  ``parts``: ``run`` for other calls, ``fill``, ``updated`` and ``storage``, which make
    the storage of results, and ``names`` of the results.
    """
    fixed = {f"fixed{number}": argument.fixed for number, argument in enumerate(arguments)}
    code = _code(arity, tuple((each.kind, each.position) for each in arguments), tuple(written), tuple(pairs))
    known = {"ndarray": np.ndarray, "may_share_memory": np.may_share_memory, **_KNOWN, **parts, **fixed}
    return FunctionType(code, known, "call")


_KNOWN: Final = {
    "__name__": __name__,
    "memoryview": memoryview,
    "type": type,
    "refused": (TypeError, AttributeError, InvalidInput),
}


@lru_cache(maxsize=256)
def _code(
    arity: int,
    arguments: tuple[tuple[str, int | None], ...],
    written: tuple[int, ...],
    pairs: tuple[tuple[int, int], ...],
) -> CodeType:
    parameters = "".join(f"v{number}, " for number in range(arity))
    otherwise = f"return run(({parameters}))"
    checks: list[str] = []
    lines: list[str] = []
    views: list[str] = []
    for number, (kind, position) in enumerate(arguments):
        if kind == "known":
            views.append(f"fixed{number}")
        elif kind == "converted":
            views.append(f"fixed{number}(v{position})")
        elif kind == "number":
            views.append(
                f"(p{number}[1] if (p{number} := fixed{number}.last)[0] is v{position} else fixed{number}(v{position}))"
            )
        else:
            checks.append(f"type(v{position}) is not ndarray or v{position}.dtype is not fixed{number}")
        if kind == "read":
            views.append(f'memoryview(v{position}).cast("B").toreadonly()')
        elif kind in ("updated", "output"):
            lines += [
                f"w{position} = memoryview(v{position})",
                f"if w{position}.readonly or not v{position}.flags.owndata: {otherwise}",
                f'w{position} = w{position}.cast("B")',
            ]
            if kind == "updated":
                views.append(f"w{position}.toreadonly()")
    shared = [
        f"v{one} is v{other} or not v{other}.flags.owndata and may_share_memory(v{one}, v{other})"
        for one, other in pairs
    ]
    memory = "".join(f"w{position}, " for position in written)
    storage = (
        f"storage(({memory}), names)" if any(kind == "output" for kind, _ in arguments) else f"updated(({memory}))"
    )
    body = [
        *([f"if {' or '.join(checks)}: {otherwise}"] if checks else []),
        *lines,
        *([f"if {' or '.join(shared)}: {otherwise}"] if shared else []),
        f"views = [{', '.join(views)}]",
    ]
    text = "\n".join(
        [
            f"def call({parameters}):",
            "  try:",
            *(f"    {line}" for line in body),
            "  except refused:",  # an array without elements or with gaps, or no array
            "    pass",  # what is refused below must not be told as an error that came while this one was handled
            "  else:",
            f"    return fill(views, {storage})",
            f"  {otherwise}",
        ]
    )
    module = compile(text, "<vyre call>", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))
