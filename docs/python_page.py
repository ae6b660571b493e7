"""The generated part of the page about kernels in plain Python: the functions that kernels can call."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import vyre
from vyre.domain.frontend.calls import names_of_functions
from vyre.domain.frontend.functions import OF_MATH, OF_NUMPY, OF_VYRE_BINARY, OF_VYRE_UNARY
from vyre.domain.ir.operators import BINARY, UNARY, UnaryOp

PAGE: Final = Path(__file__).parent / "python.md"
BEGIN: Final = "<!-- functions: written by docs/generate.py -->\n"
END: Final = "<!-- end of functions -->\n"

OF_PYTHON: Final = {
    "abs": "of integers and floats; the least integer of a type stays as it is, as in NumPy",
    "bool": "whether a number is not zero",
    "divmod": "`(a // b, a % b)` of integers, rounded down",
    "enumerate": "of a tuple or a range of known numbers, for the rounds of an unrolled loop",
    "float": "of numbers that are known; for values write `f32(x)` or `f64(x)`",
    "int": "of numbers that are known; for values write `i32(x)`, `u32(x)`, which truncate",
    "len": "of an array: its elements, rows or planes, as a u32; of a tuple: a known number",
    "max": "of two or more values, or of a tuple; with NaN and zeros of both signs as in Python",
    "min": "of two or more values, or of a tuple; with NaN and zeros of both signs as in Python",
    "range": "in `for`: one to three integers of one type; in `vyre.static`: known numbers",
    "reversed": "of a tuple or a range of known numbers",
    "round": "of a float, to the nearest whole number and halves to the even one; the result stays a float",
    "tuple": "of a range of known numbers",
    "zip": "of tuples and ranges of known numbers",
}
"""What the functions of Python do in a kernel."""

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]
Types = Callable[[Iterable[object]], str]


def operation_rows(type_names: Types) -> Iterable[tuple[str, ...]]:
    """Yields a row for each operation of one operand: its names, the types of its operand, its meaning."""
    of_vyre = {op: str(getattr(function, "__name__", "")) for function, op in OF_VYRE_UNARY.items()}
    for op in UnaryOp:
        found = [f"`math.{name}`" for name, one in OF_MATH.items() if one is op]
        found += [f"`np.{name}`" for name, one in OF_NUMPY.items() if one is op]
        found += [f"`vyre.{of_vyre[op]}`"] if op in of_vyre else []
        if found:
            yield " ".join(found), type_names(UNARY[op].operands), UNARY[op].meaning


def binary_rows(type_names: Types) -> Iterable[tuple[str, ...]]:
    """Yields a row for each function of two operands."""
    for function, op in OF_VYRE_BINARY.items():
        name = str(getattr(function, "__name__", ""))
        yield f"`vyre.{name}`", type_names(BINARY[op].operands), BINARY[op].meaning


def other_rows() -> Iterable[tuple[str, ...]]:
    """Yields a row for each function of Python, and for each other function of vyre."""
    operations = {getattr(one, "__name__", "") for one in (*OF_VYRE_UNARY, *OF_VYRE_BINARY)}
    plain = [name for name in names_of_functions() if "." not in name and name not in operations]
    for name in sorted(plain, key=lambda name: (not hasattr(builtins, name), name)):
        if hasattr(builtins, name):
            yield f"`{name}`", OF_PYTHON[name]
        else:
            yield f"`vyre.{name}{_parameters(name)}`", _first_sentence(getattr(vyre, name))


def _parameters(name: str) -> str:
    parameters = inspect.signature(getattr(vyre, name)).parameters.values()
    shown = [one.name.rstrip("_") + ("=0" if one.default == 0 else "") for one in parameters]
    return f"({', '.join(shown)})"


def _first_sentence(function: object) -> str:
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split()).replace("``", "`")
    return text.removesuffix(".")


def render(table: Table, type_names: Types) -> str:
    """Returns the page with its tables of functions as they are now."""
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    tables = (
        table(("function", "in a kernel"), other_rows()),
        table(("function of x", "types of x", "result"), operation_rows(type_names)),
        table(("function of a and b", "types", "result"), binary_rows(type_names)),
    )
    return before + BEGIN + "\n" + "\n\n".join(tables) + "\n\n" + END + after
