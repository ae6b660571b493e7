"""The way from a selector to the arm of a switch: a table of branches for dense labels, else one test per arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.operands import Register
from vyre.adapters.cuda.ptx.values import Value, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF
from vyre.domain.ir.stmt import Arm, Body

TABLE_FROM: Final = 6
"""The number of labels from which on a table may replace the tests."""
SPARSENESS: Final = 3
"""The most entries of a table for each label."""
WriteBody = Callable[[Kernel, Body], None]


def write(k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody) -> None:
    """Writes a switch.  ``uniform`` is ``.uni`` if all lanes of a subgroup select the same arm, else empty."""
    labels = [_number(selector, label.bits) for arm in arms for label in arm.labels]
    span = max(labels, default=0) - min(labels, default=0)
    if len(labels) >= TABLE_FROM and span < SPARSENESS * len(labels):
        _by_table(k, selector, arms, default, uniform, write_body)
    else:
        _by_tests(k, selector, arms, default, uniform, write_body)


def _number(selector: Value, bits: int) -> int:
    dtype = selector.dtype
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def _by_tests(
    k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody
) -> None:
    w, end = k.w, k.w.label()
    register = in_register(w, selector)
    for number, arm in enumerate(arms):
        last = number + 1 == len(arms) and not default
        following = end if last else w.label()
        chosen = _is_one_of(k, register, selector, arm)
        w.line(f"@!{chosen} bra{uniform} {following};")
        write_body(k, arm.body)
        if not last:
            w.line(f"bra.uni {end};")
            w.place(following)
    write_body(k, default)
    w.place(end)


def _is_one_of(k: Kernel, register: Register, selector: Value, arm: Arm) -> Register:
    """Writes whether the selector is a label of an arm; labels that follow each other are tested together."""
    w, dtype = k.w, selector.dtype
    is_label: Register | None = None
    for first, last in _runs(sorted(_number(selector, label.bits) for label in arm.labels)):
        low = literal(dtype, first & ((1 << dtype.bits) - 1))
        if first == last:
            here = w.emit("p", f"setp.eq.u{dtype.bits}", register, low.operand)
        else:
            above = w.emit(CLASS_OF[dtype], f"sub.u{dtype.bits}", register, low.operand)
            here = w.emit("p", f"setp.le.u{dtype.bits}", above, last - first)
        is_label = here if is_label is None else w.emit("p", "or.pred", is_label, here)
    assert is_label is not None, "every arm has a label"
    return is_label


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Returns the first and the last number of each run of consecutive ones."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _by_table(
    k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody
) -> None:
    w, dtype = k.w, selector.dtype
    end, table = w.label(), w.label()
    otherwise = w.label() if default else end
    places = [w.label() if arm.body else end for arm in arms]
    place_of = {
        _number(selector, one.bits): place for arm, place in zip(arms, places, strict=True) for one in arm.labels
    }
    low, high = min(place_of), max(place_of)
    first = literal(dtype, low & ((1 << dtype.bits) - 1))
    entry = in_register(w, selector)
    if low:
        entry = w.emit(CLASS_OF[dtype], f"sub.u{dtype.bits}", entry, first.operand)
    beyond = w.emit("p", f"setp.gt.u{dtype.bits}", entry, high - low)
    w.line(f"@{beyond} bra{uniform} {otherwise};")
    if dtype.bits == 64:
        entry = k.integers.fences.around(w, Fence.NARROWING, w.emit("r", "cvt.u32.u64", entry))
    targets = ", ".join(place_of.get(number, otherwise) for number in range(low, high + 1))
    w.line(f"{table}: .branchtargets {targets};")
    w.line(f"brx.idx{uniform} {entry}, {table};")
    for arm, place in zip(arms, places, strict=True):
        if arm.body:
            w.place(place)
            write_body(k, arm.body)
            w.line(f"bra.uni {end};")
    if default:
        w.place(otherwise)
        write_body(k, default)
    w.place(end)
