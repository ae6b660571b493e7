"""Cases of all operators of the CPU emitter, and functions in LLVM IR that apply them to arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vyre.adapters.cpu.llvm import conversion, narrowing, operators
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.values import SCALAR, Value, literal
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.native.loading import load
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
    """Yields every binary operator on every type, counts of both types."""
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
    """Yields every unary operator on every type, without the transcendental functions."""
    for op, row in UNARY.items():
        if op not in TRANSCENDENTALS:
            for dtype in EXECUTABLE_TYPES:
                if dtype in row.operands:
                    yield unary_case(op, dtype)


def unary_case(op: UnaryOp, dtype: ScalarType) -> Case:
    """Returns one unary operator."""
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
    """Yields every cast, wrapping cast and bitcast."""
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
    """Yields ``narrow``, ``pack`` and ``unpack`` of every narrow type."""
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
    """Yields ``select`` of every type and ``fma``."""
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
    """Returns every operator but the transcendental functions."""
    return (*binary_cases(), *unary_cases(), *conversion_cases(), *narrow_cases(), *ternary_cases())


class Kind(Enum):
    """Where an operand of a function comes from."""

    LANES = "its array, one element for each lane"
    UNIFORM = "the first element of its array"
    AFFINE = "the element of the first lane of a vector, plus a stride for each further lane"
    CONSTANT = "the text of the function"


class Form(NamedTuple):
    """Where an operand comes from; ``number`` is the stride or the bits of the constant."""

    kind: Kind
    number: int = 0


LANES: Final = Form(Kind.LANES)
UNIFORM: Final = Form(Kind.UNIFORM)


class Application(NamedTuple):
    """A case, the form of each operand, and rows of operand bits, some of which the forms replace."""

    name: str
    case: Case
    forms: tuple[Form, ...]
    rows: Sequence[tuple[int, ...]]

    def operands(self, lanes: int | None) -> list[tuple[int, ...]]:
        """Returns the rows that the function with vectors of that many lanes works on."""
        found = []
        for number, row in enumerate(self.rows):
            operands = list(row)
            for position, (kind, constant) in enumerate(self.forms):
                match kind:
                    case Kind.UNIFORM:
                        operands[position] = self.rows[0][position]
                    case Kind.CONSTANT:
                        operands[position] = constant
                    case Kind.AFFINE:
                        lane = number % (lanes or 1)
                        mask = (1 << self.case.operands[position].bits) - 1
                        operands[position] = (self.rows[number - lane][position] + lane * constant) & mask
                    case Kind.LANES:
                        pass
            found.append(tuple(operands))
        return found


_PROGRAM: Final = Program((), (64, 1, 1), ())


def kernel(lanes: int) -> Kernel:
    """Returns the state of a kernel with vectors of that many lanes."""
    return Kernel(_PROGRAM, EmitOptions(lanes=lanes), {}, lanes)


def module_text(applications: Sequence[Application], lanes: int | None) -> str:
    """Returns a module with the function of each application."""
    module: dict[str, None] = {}
    functions = [_function(application, lanes, module) for application in applications]
    return "\n".join((*module, *functions))


def _function(application: Application, lanes: int | None, module: dict[str, None]) -> str:
    """Returns the text of ``void name(ptr in..., ptr out, i64 count)``, which applies a case to arrays.

    ``lanes`` is the number of elements at a time, which divides ``count``; None for values that are uniform.  Lines
    outside of the function are added to ``module``.
    """
    case, k = application.case, kernel(lanes or 4)
    w = k.w
    before = w.block
    w.open_loop("loop")
    index, later = w.name(), w.name()
    operands = zip(case.operands, application.forms, strict=True)
    values = [_operand(k, dtype, form, f"%in{i}", index, lanes) for i, (dtype, form) in enumerate(operands)]
    result = case.apply(k, *values)
    assert result.dtype is case.result, f"{application.name}: {result.dtype} instead of {case.result}"
    if result.dtype.is_float:
        result = conversion.bitcast(k, result.dtype, result)  # with the NaN that a store writes
    _store(k, result, index, lanes)
    w.line(f"{later} = add i64 {index}, {lanes or 1}")
    end = w.here(f"icmp uge i64 {later}, %count")
    last = w.block
    w.branch(end, "after", "loop")
    w.close_loop("after")
    lines = w.text().splitlines()
    lines.insert(lines.index("loop:") + 1, f"  {index} = phi i64 [ 0, %{before} ], [ {later}, %{last} ]")
    module.update(w.module)
    pointers = ", ".join(f"ptr %in{i}" for i in range(len(case.operands)))
    head = f"define void @{application.name}({pointers}, ptr %out, i64 %count) {{"
    return "\n".join((head, "entry:", *lines, "  ret void", "}"))


def _element(dtype: ScalarType) -> str:
    return "i8" if dtype is bool_ else SCALAR[dtype]


def _address(k: Kernel, dtype: ScalarType, array: str, index: str) -> str:
    return k.w.here(f"getelementptr {_element(dtype)}, ptr {array}, i64 {index}")


def _operand(k: Kernel, dtype: ScalarType, form: Form, array: str, index: str, lanes: int | None) -> Value:
    if form.kind is Kind.CONSTANT:
        return literal(dtype, form.number)
    element = _element(dtype)
    is_vector = form.kind is Kind.LANES and lanes is not None
    kind = k.vector_type(element) if is_vector else element
    address = _address(k, dtype, array, "0" if form.kind is Kind.UNIFORM else index)
    operand = k.w.here(f"load {kind}, ptr {address}, align 1")
    if dtype is bool_:
        operand = k.w.here(f"icmp ne {kind} {operand}, {'zeroinitializer' if is_vector else '0'}")
    if is_vector:
        return k.varying(dtype, operand)
    if form.kind is Kind.AFFINE and lanes is not None:
        return k.affine(dtype, operand, form.number)
    return k.uniform(dtype, operand)


def _store(k: Kernel, value: Value, index: str, lanes: int | None) -> None:
    operand = value.operand if lanes is None else k.vector(value)
    element = _element(value.dtype)
    kind = element if lanes is None else k.vector_type(element)
    if value.dtype is bool_:
        source = "i1" if lanes is None else k.vector_type("i1")
        operand = k.w.here(f"zext {source} {operand} to {kind}")
    k.w.line(f"store {kind} {operand}, ptr {_address(k, value.dtype, '%out', index)}, align 1")


def wrong_results(
    applications: Sequence[Application], lanes: int | None, effort: Effort, features: CpuFeatures | None = None
) -> list[str]:
    """Compiles and runs all applications, and returns what differs from the exact results: one line for each."""
    code = load(compile_object(module_text(applications, lanes), features or host(), effort))
    try:
        wrong = []
        for application in applications:
            rows = application.operands(lanes)
            expected = [_exact(application.case, row) for row in rows]
            results = _call(code.addresses[application.name], application, lanes or 1)
            differing = [i for i, (a, b) in enumerate(zip(results, expected, strict=True)) if a != b]
            if differing:
                first = differing[0]
                operands = ", ".join(f"{bits:#x}" for bits in rows[first])
                wrong.append(
                    f"{application.name}({operands}) = {results[first]:#x}, not {expected[first]:#x};"
                    f" {len(differing)} of {len(rows)} differ"
                )
        return wrong
    finally:
        code.close()


_KNOWN: Final[dict[tuple[str, tuple[int, ...]], int]] = {}


def _exact(case: Case, row: tuple[int, ...]) -> int:
    """Returns what a store of the exact result writes."""
    key = (case.name, row)
    if key not in _KNOWN:
        _KNOWN[key] = scalar.canonical(case.result, case.exact(*row))
    return _KNOWN[key]


def _call(address: int, application: Application, step: int) -> list[int]:
    case, count = application.case, len(application.rows)
    padded = [*application.rows, *[application.rows[0]] * (-count % step)]
    arrays = [_array(dtype, [row[i] for row in padded]) for i, dtype in enumerate(case.operands)]
    out = np.zeros(len(padded), _memory_type(case.result))
    pointers = [array.ctypes.data for array in (*arrays, out)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)(address)(*pointers, len(padded))
    found: list[int] = out[:count].tolist()
    return found


def _memory_type(dtype: ScalarType) -> str:
    return "<u1" if dtype is bool_ else f"<u{dtype.size}"


def _array(dtype: ScalarType, values: Sequence[int]) -> NDArray[Any]:
    return np.array(values, dtype=_memory_type(dtype))
