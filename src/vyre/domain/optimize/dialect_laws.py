"""Laws that dialects state of operations, kept with a program whose calls of these were replaced.

They are equations of the language's own operators, so that they hold whatever has become of the calls.  Nobody has to
believe them: only those are used that passed their check on all values of their model.  The check is the same in every
process and on every machine; a prover that happens to be installed has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from blake3 import blake3

if TYPE_CHECKING:
    from vyre.domain.dialects.laws.law import Law
    from vyre.domain.ir.program import Program

_STATED: Final = "laws of dialects"
_DIGITS: Final = 32


def keep_stated_laws(program: Program, laws: tuple[Law, ...]) -> None:
    """Keeps laws with a program, unless it has some already; they are part of neither its digest nor its equality."""
    if laws:
        program._cache.setdefault(_STATED, laws)


def stated_laws(program: Program) -> tuple[Law, ...]:
    """Returns the laws that are kept with a program, which nobody may have checked."""
    laws = program._cache.get(_STATED, ())
    return laws if isinstance(laws, tuple) else ()


def checked_laws(program: Program) -> tuple[Law, ...]:
    """Returns the laws that are kept with a program and passed their check, which takes some tenths of a second each
    when a process first asks.
    """
    return trusted(stated_laws(program))


def trusted(laws: Iterable[Law]) -> tuple[Law, ...]:
    """Returns the laws that hold on all values of their model, at all their types."""
    return tuple([law for law in laws if is_trusted(law)])


@lru_cache(maxsize=4096)
def is_trusted(law: Law) -> bool:
    """Returns whether a law holds on all values of its model, at all its types."""
    from vyre.domain.dialects.laws.checker import check  # few programs call operations that have laws

    return all(check(law, dtype).is_trusted for dtype in law.types)


def digest_of(laws: Iterable[Law]) -> str:
    """Returns 32 hexadecimal digits for laws in their order, by what these say and not by their names."""
    return blake3("".join(f"{law.digest}{law.both_ways}" for law in laws).encode()).hexdigest()[:_DIGITS]
