"""Functions that apply one operator of the CPU emitter to arrays, and the cases of all operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vyre.adapters.cpu.llvm import conversion, narrowing, operators
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.ir.operators import (
    BINARY,
    TRANSCENDENTALS,
    UNARY,
    RightOperand,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    unary_result,
    wrap_cast_is_legal,
)
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType, bool_, u32
from vyre.domain.numerics import scalar

Apply = Callable[..., Value]


class Case(NamedTuple):
    """An operator: its operand types, the type of its result, how it is written and what it must give."""

    name: str
    operands: tuple[ScalarType, ...]
    result: ScalarType
    apply: Apply
    exact: Callable[..., int]


def binary_cases() -> Iterator[Case]:
    """Every binary operator on every type, counts of both types."""
    for op, row in BINARY.items():
        for dtype in EXECUTABLE_TYPES:
            if dtype not in row.operands:
                continue
            rights = {dtype, u32} if row.right is RightOperand.SHIFT else {dtype}
            for right in sorted(rights, key=lambda t: t.text):
                result = binary_result(op, dtype, right)
                assert result is not None
                yield Case(
                    f"{op.name.lower()}_{dtype.text}_{right.text}",
                    (dtype, right),
                    result,
                    lambda k, a, b, op=op: operators.binary(k, op, a, b),
                    lambda a, b, op=op, dtype=dtype: scalar.binary(op, dtype, a, b),
                )


def unary_cases() -> Iterator[Case]:
    """Every unary operator on every type, without the transcendental functions."""
    for op, row in UNARY.items():
        if op not in TRANSCENDENTALS:
            for dtype in EXECUTABLE_TYPES:
                if dtype in row.operands:
                    yield unary_case(op, dtype)


def unary_case(op: UnaryOp, dtype: ScalarType) -> Case:
    """One unary operator."""
    result = unary_result(op, dtype)
    assert result is not None
    return Case(
        f"{op.name.lower()}_{dtype.text}",
        (dtype,),
        result,
        lambda k, a: operators.unary(k, op, a),
        lambda a: scalar.unary(op, dtype, a),
    )


def conversion_cases() -> Iterator[Case]:
    """Every cast, wrapping cast and bitcast."""
    for source in EXECUTABLE_TYPES:
        for target in EXECUTABLE_TYPES:
            yield Case(
                f"cast_{source.text}_{target.text}",
                (source,),
                target,
                lambda k, a, t=target: conversion.cast(k, t, a),
                lambda a, s=source, t=target: scalar.cast(s, t, a),
            )
            if wrap_cast_is_legal(source, target):
                yield Case(
                    f"wrap_{source.text}_{target.text}",
                    (source,),
                    target,
                    lambda k, a, t=target: conversion.wrap_cast(k, t, a),
                    lambda a, s=source, t=target: scalar.wrap_cast(s, t, a),
                )
            if bitcast_is_legal(source, target):
                yield Case(
                    f"bitcast_{source.text}_{target.text}",
                    (source,),
                    target,
                    lambda k, a, t=target: conversion.bitcast(k, t, a),
                    lambda a, s=source, t=target: scalar.bitcast(s, t, a),
                )


def narrow_cases() -> Iterator[Case]:
    """``narrow``, ``pack`` and ``unpack`` of every narrow type."""
    for dtype in NARROW_TYPES:
        wide = dtype.widened
        yield Case(
            f"narrow_{dtype.text}",
            (wide,),
            wide,
            lambda k, a, t=dtype: narrowing.narrow(k, t, a),
            lambda a, t=dtype: scalar.narrow(t, a),
        )
        yield Case(
            f"pack_{dtype.text}",
            (wide,),
            u32,
            lambda k, a, t=dtype: narrowing.pack(k, t, a),
            lambda a, t=dtype: scalar.pack(t, a),
        )
        yield Case(
            f"unpack_{dtype.text}",
            (u32,),
            wide,
            lambda k, a, t=dtype: narrowing.unpack(k, t, a),
            lambda a, t=dtype: scalar.unpack(t, a),
        )


def ternary_cases() -> Iterator[Case]:
    """``select`` of every type and ``fma``."""
    for dtype in EXECUTABLE_TYPES:
        yield Case(
            f"select_{dtype.text}",
            (bool_, dtype, dtype),
            dtype,
            operators.select,
            lambda c, a, b: a if c else b,
        )
        if dtype.is_float:
            yield Case(
                f"fma_{dtype.text}",
                (dtype,) * 3,
                dtype,
                operators.fma,
                lambda a, b, c, dtype=dtype: scalar.fma(dtype, a, b, c),
            )


def all_cases() -> tuple[Case, ...]:
    """Every operator but the transcendental functions."""
    return (*binary_cases(), *unary_cases(), *conversion_cases(), *narrow_cases(), *ternary_cases())


_PROGRAM: Final = Program((), (64, 1, 1), ())


def kernel(lanes: int) -> Kernel:
    """The state of a kernel with vectors of that many lanes."""
    return Kernel(_PROGRAM, EmitOptions(lanes=lanes), {}, lanes)


def memory_type(dtype: ScalarType) -> str:
    """The NumPy type of the elements of an array; a bool is a byte."""
    return "<u1" if dtype is bool_ else f"<u{dtype.size}"


def function(name: str, case: Case, lanes: int | None, module: dict[str, None]) -> str:
    """The text of ``void name(ptr in..., ptr out, i64 count)``, which applies a case to arrays.

    ``lanes`` is the number of elements at a time, which divides ``count``; None for values that are uniform.  Lines
    outside of the function are added to ``module``.
    """
    k = kernel(lanes or 4)
    w = k.w
    before = w.block
    w.open_loop("loop")
    index, later = w.name(), w.name()
    # The label of the last block is known at the end only.
    place = len(w.text().splitlines())
    values = [_loaded(k, dtype, f"%in{i}", index, lanes) for i, dtype in enumerate(case.operands)]
    result = case.apply(k, *values)
    assert result.dtype is case.result, f"{name}: {result.dtype} instead of {case.result}"
    assert lanes is None or not result.is_uniform, f"{name}: the result of vectors is a scalar"
    _store(k, conversion.canonical(k, result), index, lanes)
    w.line(f"{later} = add i64 {index}, {lanes or 1}")
    end = w.here(f"icmp uge i64 {later}, %count")
    last = w.block
    w.branch(end, "after", "loop")
    w.close_loop("after")
    lines = w.text().splitlines()
    lines.insert(place, f"  {index} = phi i64 [ 0, %{before} ], [ {later}, %{last} ]")
    module.update(w.module)
    pointers = ", ".join(f"ptr %in{i}" for i in range(len(case.operands)))
    return "\n".join((f"define void @{name}({pointers}, ptr %out, i64 %count) {{", "entry:", *lines, "  ret void", "}"))


def _element(dtype: ScalarType) -> str:
    return "i8" if dtype is bool_ else SCALAR[dtype]


def _address(k: Kernel, dtype: ScalarType, array: str, index: str) -> str:
    return k.w.here(f"getelementptr {_element(dtype)}, ptr {array}, i64 {index}")


def _loaded(k: Kernel, dtype: ScalarType, array: str, index: str, lanes: int | None) -> Value:
    element = _element(dtype)
    kind = element if lanes is None else k.vector_type(element)
    operand = k.w.here(f"load {kind}, ptr {_address(k, dtype, array, index)}, align 1")
    if dtype is bool_:
        zero = "0" if lanes is None else "zeroinitializer"
        operand = k.w.here(f"icmp ne {kind} {operand}, {zero}")
    return k.uniform(dtype, operand) if lanes is None else k.varying(dtype, operand)


def _store(k: Kernel, value: Value, index: str, lanes: int | None) -> None:
    operand = value.operand if lanes is None else k.vector(value)
    element = _element(value.dtype)
    kind = element if lanes is None else k.vector_type(element)
    if value.dtype is bool_:
        source = "i1" if lanes is None else k.vector_type("i1")
        operand = k.w.here(f"zext {source} {operand} to {kind}")
    k.w.line(f"store {kind} {operand}, ptr {_address(k, value.dtype, '%out', index)}, align 1")


def module_text(functions: Sequence[str], module: dict[str, None]) -> str:
    """A module."""
    return "\n".join((*module, *functions))


def column(dtype: ScalarType, values: Sequence[int]) -> NDArray[Any]:
    """An array of bit patterns."""
    return np.array(values, dtype=memory_type(dtype))
