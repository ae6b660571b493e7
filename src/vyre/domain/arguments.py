"""Type checks of arguments, made before anything is done with them; errors name the argument."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import TypeVar

from vyre.domain.errors import InvalidConfig, InvalidInput, VyreError
from vyre.domain.ir.numpy_scalars import python_number, whole_number
from vyre.domain.printable import kind_of, shown

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def expect(
    name: str, value: object, kinds: type | tuple[type, ...], wanted: str, error: type[VyreError] = InvalidConfig
) -> None:
    """Raises ``error`` unless ``value`` is an instance of one of ``kinds``.

    A bool counts as an int only if ``bool`` is among the kinds.
    """
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, allowed) or (type(value) is bool and int in allowed and bool not in allowed):
        raise error(f"{name}={shown(value)} is {kind_of(value)}, not {wanted}", fix=f"pass {wanted}.")


def member(name: str, value: E | str, kind: type[E]) -> E:
    """Returns a member of an enumeration, which may be given by its value.  Raises ``InvalidConfig`` for another."""
    if isinstance(value, kind):
        return value
    names = ", ".join(repr(each.value) for each in kind)
    expect(name, value, str, f"one of {names}")
    try:
        return kind(value)
    except ValueError:
        raise InvalidConfig(f"{name}={shown(value)}", fix=f"use one of {names}.") from None


def whole(
    name: str,
    value: object,
    low: int,
    high: int | None = None,
    fix: str | None = None,
    error: type[VyreError] = InvalidConfig,
) -> int:
    """Returns a whole number of Python or NumPy, or of an enumeration of numbers, as a plain int.

    Raises ``error`` for one outside ``low``..``high``, for a bool, and for anything else.
    """
    number = whole_number(value)
    if number is None or number < low or (high is not None and number > high):
        limits = f"{low}..{high}" if high is not None else f"{low} or more"
        raise error(f"{name}={shown(value)} is not an int in {limits}", fix=fix or f"use {limits}, or leave it out.")
    return number


def real(name: str, value: object, low: float, high: float, fix: str) -> float:
    """Returns a real number of Python or NumPy in ``low``..``high`` as a float.

    Raises ``InvalidConfig`` for any other, for a bool, and for anything else.
    """
    number = python_number(value)
    if isinstance(number, (int, float)) and not isinstance(number, bool) and low <= number <= high:
        return float(number)
    raise InvalidConfig(f"{name}={shown(value)}", fix=fix)


def items_of(name: str, value: Iterable[T]) -> Iterator[T]:
    """Raises ``InvalidInput`` for what has no items, and for a text, whose characters are none."""
    try:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError
        return iter(value)
    except TypeError:
        raise InvalidInput(f"{name}={shown(value)} is {kind_of(value)}", fix="pass a list.") from None


def path_of(name: str, value: Path | str) -> Path:
    """Raises ``InvalidConfig`` for what cannot be the name of a file."""
    expect(name, value, (str, Path), "a path")
    path = Path(value)
    try:
        if b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise InvalidConfig(f"{name}={shown(value)} is no name of a file", fix="pass a path.")
