"""The laws of dialects by which the optimizer may rewrite: those that were checked on all values of their model.

The decision is the same for every process and every machine: a prover that happens to be installed has no part in it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from vyre.domain.dialects.laws.checker import check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre.app.dialects.registry import Snapshot
    from vyre.domain.dialects.laws.law import Law
    from vyre.domain.ir.program import Program


def trusted_laws(program: Program, snapshot: Snapshot) -> tuple[Law, ...]:
    """Returns the laws of the operations that a program defines, in their forms without calls, that may be used.

    They are equations of the language's own operators, so that they hold whichever definition the program carries.
    Each is checked once in a process, which takes some tenths of a second.
    """
    named = dict.fromkeys(each.id for each in program.definitions)
    return tuple(_trusted(law for name in named for stated in snapshot.laws_of(name) for law in stated.laws))


def _trusted(laws: Iterable[Law]) -> list[Law]:
    return [law for law in laws if _is_trusted(law)]


@lru_cache(maxsize=4096)
def _is_trusted(law: Law) -> bool:
    return all(check(law, dtype).is_trusted for dtype in law.types)
