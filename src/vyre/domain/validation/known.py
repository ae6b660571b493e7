"""What is known of a program without its validation: what an earlier one, in this process or another, has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.domain.validation import CHECKED

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

_ORDER: Final = "order sensitive"


def is_checked(program: Program) -> bool:
    """Returns whether ``check_rules`` has the report of the program."""
    return CHECKED in program._cache


def order_sensitive(program: Program) -> bool:
    """Returns whether results may depend on the order in which lanes reach atomics; validates the program if nothing
    is known of it.
    """
    is_sensitive = program._cache.get(_ORDER)
    if is_sensitive is None:
        from vyre.domain.validation.validator import check_rules

        is_sensitive = program._cache[_ORDER] = check_rules(program).order_sensitive
    return is_sensitive is True


def remember_order(program: Program, *, sensitive: bool) -> None:
    """Records what ``order_sensitive`` returns for a program that was found valid before."""
    program._cache[_ORDER] = sensitive
