"""Runs recorded programs and operator tables: ``python -m vyre.testing.conformance FILE... --backend NAME``.

``--schedule`` and ``--seed`` choose the order in which an emulated device runs its lanes.  Programs whose result
depends on the order of atomics are compared in the canonical order only, and skipped by name in any other.

The command reads ``ir-conformance.json``, ``oracle-programs.jsonl`` and ``oracle-scalar-ops.jsonl``, plain or
compressed with gzip or xz, recognized by content.  A failure gets a line ``FAIL name: reason``, a case that has no
counterpart here ``SKIP name: rule``; the last line is ``N passed, N failed, N skipped``.  Exit code: 0 if nothing
failed, 1 if something did, 2 for a file that cannot be read or a backend that does not exist.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from vyre.adapters.terminal import command, complain
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import UnreadableFile, VyreError
from vyre.domain.ir.buffers import element_of, inputs_of, outputs_of
from vyre.domain.ir.expr import Atomic, Binary, Cast, Expr, Fma, Unary
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    TRANSCENDENTALS,
    AtomicOp,
    BinaryOp,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.domain.ir.upstream import import_upstream
from vyre.domain.printable import indented
from vyre.domain.program_report import InvalidProgram
from vyre.domain.strict_json import MAX_PROGRAM_DEPTH, parse
from vyre.domain.validation.validator import check_rules
from vyre.gallery.example import ulps
from vyre.ports.backend import Backend
from vyre.testing.execution import ORDER_SENSITIVE, SCHEDULES, execute, find_scheduled
from vyre.testing.operations import LANE, A, B, C, Operation, Row
from vyre.testing.outcomes import Outcome, Verdict, print_outcomes
from vyre.testing.packed_files import unpacked

_NOT_IN_THIS_LAYER: Final = (
    "opaque_expr_unsupported",
    "call_unresolved",
    "indirect_dispatch_unsupported",
    "resume_unsupported",
)
_LINTS_HERE: Final = frozenset({"V044"})
"""Codes of errors of vyre-driver that make no program invalid here: a division by a written zero has a value."""


class Subject(NamedTuple):
    """The backend under test.  ``canonical_order``: whether its lanes run in the canonical schedule."""

    backend: Backend
    canonical_order: bool = True


class Case(NamedTuple):
    """One case of a file: its name, and the function that judges it."""

    name: str
    judge: Callable[[Subject], Outcome]


def read_cases(path: Path) -> list[Case]:
    """Returns the cases of a file; raises ``UnreadableFile`` if it has none of the documented formats."""
    data = unpacked(path)
    try:
        if data.lstrip()[:1] == b"{" and b'"programs"' in data[:200]:
            return [_conformance_case(p) for p in parse(data, depth=MAX_PROGRAM_DEPTH)["programs"]]
        records = [parse(line, depth=MAX_PROGRAM_DEPTH) for line in data.splitlines() if line.strip()]
        if isinstance(records, list) and records and "programs" in records[0]:
            return [_conformance_case(p) for r in records for p in r["programs"]]
        if all("program" in r for r in records):
            return [_oracle_case(r) for r in records]
        if all("kind" in r and "rows" in r for r in records):
            return [_table_case(r) for r in records if r["defined"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableFile(f"{path} is no conformance file ({type(error).__name__}: {error})") from None
    raise UnreadableFile(
        f"{path} is no conformance file",
        fix="pass ir-conformance.json, oracle-programs.jsonl or oracle-scalar-ops.jsonl.",
    )


def run_cases(
    cases: Iterable[Case], backend: Backend, pattern: str = "*", *, canonical_order: bool = True
) -> Iterator[Outcome]:
    """Yields the outcomes of the cases whose name matches the pattern.

    ``canonical_order``: whether lanes run in the canonical schedule; otherwise order-sensitive programs are skipped.
    """
    subject = Subject(backend, canonical_order)
    for case in cases:
        if fnmatchcase(case.name, pattern):
            try:
                yield case.judge(subject)
            except Exception as error:  # any error of a backend is a failure of that case
                yield Outcome(case.name, Verdict.FAILED, f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------- programs
class _Expectation(NamedTuple):
    """The expectations of a recorded program; ``outputs`` by buffer name; ``inputs`` None if it must not be run."""

    inputs: Mapping[str, bytes] | None
    outputs: Mapping[str, bytes]
    grid: Sequence[int] | None
    tolerance_ulp: int
    status: str
    error: str | None
    must_accept: bool
    must_refuse: bool


def _conformance_case(record: Mapping[str, Any]) -> Case:
    name = record["id"]

    def judge(subject: Subject) -> Outcome:
        program = import_upstream(record["program"]).program
        names = [b.name for b in inputs_of(program.buffers)]
        returned = [b.name for b in outputs_of(program.buffers)]
        inputs = dict(zip(names, map(bytes.fromhex, record["inputs"]), strict=True))
        outputs = dict(zip(returned, map(bytes.fromhex, record["expected"]), strict=True))
        wanted = _Expectation(inputs, outputs, record["grid"], record["tolerance_ulp"], "ok", None, True, False)
        return _judge_program(name, lambda: program, wanted, subject)

    return Case(name, judge)


def _oracle_case(record: Mapping[str, Any]) -> Case:
    name, tags = record["name"], record["tags"]
    legal = "legal_here" in tags or _only_noted_here(record)
    inputs = record.get("inputs")
    wanted = _Expectation(
        None if inputs is None else dict(zip(record["input_buffers"], map(bytes.fromhex, inputs), strict=True)),
        dict(zip(record.get("output_buffers", ()), map(bytes.fromhex, record.get("outputs") or ()), strict=False)),
        record.get("reference_grid"),
        1 if "tolerance" in tags else 0,
        record["status"],
        record.get("error"),
        legal,
        not legal and ("invalid" in tags or name.startswith("inv_")),
    )
    return Case(name, lambda s: _judge_program(name, lambda: import_upstream(record["program"]).program, wanted, s))


def _only_noted_here(record: Mapping[str, Any]) -> bool:
    """Returns whether the recording system refused the program only for defects that are lints here."""
    codes = (record.get("validation") or {}).get("error_codes") or ()
    return bool(codes) and set(codes) <= _LINTS_HERE


def _judge_program(name: str, load: Callable[[], Program], wanted: _Expectation, subject: Subject) -> Outcome:
    try:
        program = load()
        check_rules(program).raise_if_invalid()
    except VyreError as error:
        return _judge_refusal(name, error, wanted)
    if wanted.must_refuse:
        return Outcome(name, Verdict.FAILED, "accepted, but it must be refused")
    if wanted.status == "error" and not wanted.must_accept:
        return Outcome(name, Verdict.SKIPPED, _why_it_stopped(wanted.error))
    if wanted.inputs is None or wanted.status != "ok":
        return Outcome(name, Verdict.PASSED)
    grid = wanted.grid
    config = DispatchConfig(grid=None if grid is None else (grid[0], grid[1], grid[2]))
    return _compare(name, program, wanted.inputs, wanted.outputs, config, wanted.tolerance_ulp, subject)


def _why_it_stopped(error: str | None) -> str:
    if error in _NOT_IN_THIS_LAYER:
        return f"design 3.8: recorded with error `{error}`"
    return f"design 3.3: recorded with error `{error}`; here a valid program has one result or one typed error"


def _judge_refusal(name: str, error: VyreError, wanted: _Expectation) -> Outcome:
    if wanted.must_accept:
        return Outcome(name, Verdict.FAILED, f"refused, but it is legal: {error}")
    if wanted.must_refuse or wanted.status == "not_run":
        return Outcome(name, Verdict.PASSED)
    if isinstance(error, InvalidProgram) and error.report is not None:
        rule = f"semantics 6: {', '.join(sorted({d.code for d in error.report.errors}))}: {error.message}"
    else:
        rule = f"design 3.8: {error.message}"
    return Outcome(name, Verdict.SKIPPED, rule)


# ---------------------------------------------------------------- operator tables
def _table_case(table: Mapping[str, Any]) -> Case:
    name = f"{table['kind']}-{table['op']}-{table['type']}"

    def judge(subject: Subject) -> Outcome:
        try:
            case = table_case(table)
        except Untested as rule:
            return Outcome(name, Verdict.SKIPPED, str(rule))
        check_rules(case.program).raise_if_invalid()
        # Each row has its own element: atomics of a table have one answer in any order.
        any_order = subject._replace(canonical_order=True)
        return _compare(name, case.program, case.inputs, case.expected, DispatchConfig(), case.tolerance_ulp, any_order)

    return Case(name, judge)


# ---------------------------------------------------------------- running and comparing
def _compare(
    name: str,
    program: Program,
    inputs: Mapping[str, bytes],
    expected: Mapping[str, bytes],
    config: DispatchConfig,
    tolerance_ulp: int,
    subject: Subject,
) -> Outcome:
    if not subject.canonical_order and check_rules(program).order_sensitive:
        return Outcome(name, Verdict.SKIPPED, ORDER_SENSITIVE)
    outputs = execute(subject.backend, program, inputs, config)
    for buffer in program.abi_buffers:
        if not buffer.is_returned or buffer.name not in expected:
            continue
        difference = _first_difference(outputs[buffer.name], expected[buffer.name], element_of(buffer), tolerance_ulp)
        if difference is not None:
            return Outcome(name, Verdict.FAILED, f"`{buffer.name}` {difference}")
    missing = expected.keys() - outputs.keys()
    if missing:
        return Outcome(name, Verdict.FAILED, f"no output called {', '.join(sorted(missing))}")
    return Outcome(name, Verdict.PASSED)


def _first_difference(actual: bytes, expected: bytes, element: ScalarType, tolerance_ulp: int) -> str | None:
    if actual == expected:
        return None
    if len(actual) != len(expected):
        return f"has {len(actual)} bytes, not {len(expected)}"
    bits, wanted = (np.frombuffer(data, f"<u{element.size}") for data in (actual, expected))
    same = bits == wanted
    if element is ScalarType.F32:  # both zeros count as one, as do all NaN
        same = ulps(bits.view(np.float32), wanted.view(np.float32)) <= tolerance_ulp
    if same.all():
        return None
    index, digits = int(np.argmin(same)), 2 * element.size
    return f"element {index} is {bits[index]:0{digits}x}, not {wanted[index]:0{digits}x}"


# ---------------------------------------------------------------- command
@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m vyre.testing.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--backend", required=True, metavar="NAME")
    parser.add_argument("--schedule", choices=SCHEDULES, help="order of lanes, for a backend that can choose")
    parser.add_argument("--seed", type=int, help="of what an emulated device draws at random")
    parser.add_argument("-k", dest="pattern", default="*", metavar="GLOB", help="only cases whose name fits")
    parser.add_argument("--json", action="store_true", help="one JSON object a case instead of lines")
    options = parser.parse_args(arguments)
    try:
        registration, canonical_order = find_scheduled(options.backend, options.schedule, options.seed)
        backend = registration.make()
        cases = [case for path in options.files for case in read_cases(path)]
    except VyreError as error:
        complain(indented(str(error)))
        return 2
    outcomes = run_cases(cases, backend, options.pattern, canonical_order=canonical_order)
    return print_outcomes(outcomes, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())


BOOL: Final = ScalarType.BOOL
_SAME_AS: Final = {"WRAPPING_ADD": "ADD", "WRAPPING_SUB": "SUB"}


class TableCase(NamedTuple):
    """A program, its inputs by buffer name, the expected bytes of each output, and the tolerance of f32 results in
    ulps.
    """

    program: Program
    inputs: dict[str, bytes]
    expected: dict[str, bytes]
    tolerance_ulp: int


class Untested(Exception):
    """The table has no counterpart here; the text names the rule."""


def table_case(table: Mapping[str, Any]) -> TableCase:
    """Returns the case of one table; raises ``Untested`` with the rule that explains why there is none."""
    source = SCALAR_BY_TEXT.get(table["type"])
    if source is None or not source.is_executable:
        raise Untested(f"design 3.2: {table['type']} is not executable")
    return _KINDS[table["kind"]](table, _enum_name(table["op"]), source)


def _enum_name(op: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).upper()
    return _SAME_AS.get(name, name)


def _bits(row: Sequence[Any], places: Sequence[int]) -> Row:
    return tuple(int(str(row[place] or 0), 16) for place in places)


def _column(rows: Sequence[Sequence[Any]], index: int, dtype: ScalarType) -> bytes:
    return b"".join(bits.to_bytes(dtype.size, "little") for row in rows for bits in _bits(row, [index]))


def _map_case(
    rows: Sequence[Sequence[Any]],
    operands: Sequence[ScalarType],
    result: ScalarType,
    value: Expr,
    tolerance_ulp: int = 0,
) -> TableCase:
    """Returns the case of an expression of ``OPERANDS`` over the rows that have a result; there may be none."""
    used = [row for row in rows if row[len(operands)] is not None]
    operation = Operation("", "", "", tuple(operands), result, value)
    inputs = operation.inputs([_bits(row, range(len(operands))) for row in used])
    return TableCase(operation.program(len(used)), inputs, {"y": _column(used, len(operands), result)}, tolerance_ulp)


def _binary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = BinaryOp[name]
    result = binary_result(op, dtype, dtype)
    if result is not None:
        return _map_case(table["rows"], [dtype, dtype], result, Binary(op, A, B))
    if binary_result(op, BOOL, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype, dtype], BOOL, Binary(op, Cast(BOOL, A), Cast(BOOL, B)))


def _unary(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    op = UnaryOp[name]
    result = unary_result(op, dtype)
    if result is not None:
        tolerance = 1 if op in TRANSCENDENTALS else 0
        return _map_case(table["rows"], [dtype], result, Unary(op, A), tolerance)
    if unary_result(op, BOOL) is None:
        raise Untested(f"semantics 2: `{name.lower()}` is not defined for {dtype.text}")
    return _map_case(table["rows"], [dtype], BOOL, Unary(op, Cast(BOOL, A)))


def _cast(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    target = SCALAR_BY_TEXT.get(table["op"])
    if target is None or not target.is_executable:
        raise Untested(f"semantics 2.3: no cast to {table['op']}")
    return _map_case(table["rows"], [dtype], target, Cast(target, A))


def _truthiness(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype], BOOL, Cast(BOOL, A))


def _fma(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    return _map_case(table["rows"], [dtype] * 3, dtype, Fma(A, B, C))


def _atomic(table: Mapping[str, Any], name: str, dtype: ScalarType) -> TableCase:
    if name == "LRU_UPDATE":
        raise Untested("design 3.6: LruUpdate is not offered")
    if dtype not in ATOMIC_ELEMENTS:
        raise Untested(f"design 3.6: no atomics on {dtype.text}")
    op = AtomicOp[name]
    rows = [row for row in table["rows"] if row[3] is not None]
    compares = op is AtomicOp.COMPARE_EXCHANGE
    update = Atomic(op, "x0", LANE, C if compares else None, B)
    operation = Operation("", "", "", (dtype,) * (3 if compares else 2), dtype, update)
    inputs = operation.inputs([_bits(row, (0, 2, 1) if compares else (0, 2)) for row in rows])
    return TableCase(
        operation.program(len(rows)), inputs, {"y": _column(rows, 3, dtype), "x0": _column(rows, 4, dtype)}, 0
    )


_KINDS: Final[dict[str, Callable[[Mapping[str, Any], str, ScalarType], TableCase]]] = {
    "binary": _binary,
    "unary": _unary,
    "cast": _cast,
    "truthiness": _truthiness,
    "fma": _fma,
    "atomic": _atomic,
}
