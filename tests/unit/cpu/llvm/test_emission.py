"""What ``emit`` says beside the text: how often statements run, what can be joined, and places in the source."""

from __future__ import annotations

import re

import pytest

from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.program_facts import can_join, most_runs
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import host
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.gallery.registry import examples

HEAD = """
workgroup_size 8, 1, 1
buffer x @0 read u32[8]
buffer y @1 read_write u32[8]
"""


def _program(body: str, declarations: str = "", shape: str = "8, 1, 1") -> Program:
    return Program.from_text(f"{HEAD.replace('8, 1, 1', shape)}{declarations}body {{\n{body}\n}}")


RUNS: dict[str, int | None] = {
    "": 1,
    "y[gid.x] = 1u": 1,
    "for k in 0u .. 5u { y[gid.x] = k }": 5,
    "for k in 0u .. 5u { }": 5,
    "for k in 5u .. 0u { y[gid.x] = k }": 1,
    "for k in 0u .. 7u step 3u { y[gid.x] = k }": 3,
    "for k in 5i .. -2i step -3i { y[gid.x] = 1u }": 3,
    "for k in -2i .. 5i step -3i { y[gid.x] = 1u }": 1,
    "for k in 0u .. 5u {\nfor j in 0u .. 4u { y[gid.x] = k }\n}": 20,
    "for k in 0u .. 5u { y[gid.x] = k }\nfor j in 0u .. 9u { y[gid.x] = j }": 9,
    "if x[0u] > 1u {\nfor k in 0u .. 5u { y[gid.x] = k }\n}": 5,
    "switch x[0u] { case 1u {\nfor k in 0u .. 6u { y[gid.x] = k }\n}\nelse { y[gid.x] = 1u } }": 6,
    "for k in 0u .. x[0u] { y[gid.x] = k }": None,
    "for k in 0u .. 5u {\nfor j in 0u .. k { y[gid.x] = k }\n}": None,
    "for k in 0u64 .. 0xffffffffffffffffu64 step 1u64 { y[gid.x] = 1u }": (1 << 64) - 1,
    "for k in 0u64 .. 0xffffffffffffffffu64 step 1u64 {\nfor j in 0u .. 2u { y[gid.x] = 1u }\n}": None,
}


@pytest.mark.parametrize("body", RUNS)
def test_most_runs(body: str) -> None:
    program = _program(body)
    assert most_runs(program.body, {}) == RUNS[body]
    assert [kernel.bounded for kernel in emit(program).kernels] == [RUNS[body]]


def test_most_runs_of_specialization_constants() -> None:
    program = _program("for k in 0u .. spec(n, 3u) { y[gid.x] = k }")
    assert most_runs(program.body, {}) == 3
    assert most_runs(program.body, {"n": Literal(ScalarType.U32, 11)}) == 11


def test_most_runs_of_long_chains() -> None:
    chain = " else ".join(f"if x[0u] == {n}u {{ y[gid.x] = {n}u }}" for n in range(2000))
    assert most_runs(_program(chain).body, {}) == 1


JOINS = {
    "a map": (True, "y[gid.x] = x[gid.x]", "", "8, 1, 1"),
    "an atomic without a result": (True, "let old = atomic_add(y, 0u, 1u)", "", "8, 1, 1"),
    "a workgroup of one": (True, "y[gid.x] = wid.x", "", "1, 1, 1"),
    "an atomic with a result": (
        False,
        "let old = atomic_add(c, 0u, 1u)\ny[1u] = old",
        "buffer c @2 read_write u32[1]\n",
        "8, 1, 1",
    ),
    "a barrier": (False, "barrier(seq_cst)\ny[gid.x] = 1u", "", "8, 1, 1"),
    "workgroup memory": (False, "s[lid.x] = 1u\ny[gid.x] = s[lid.x]", "buffer s @- workgroup u32[8]\n", "8, 1, 1"),
    "a subgroup operation": (False, "y[gid.x] = subgroup_add(x[gid.x])", "", "8, 1, 1"),
    "two axes": (False, "y[gid.x] = 1u", "", "4, 2, 1"),
    "three axes": (False, "y[gid.x] = 1u", "", "4, 1, 2"),
}


@pytest.mark.parametrize("name", JOINS)
def test_which_workgroups_are_joined(name: str) -> None:
    joins, body, declarations, shape = JOINS[name]
    program = _program(body, declarations, shape)
    assert can_join(program) is joins
    if not joins:
        with pytest.raises(AssertionError):
            emit(program, EmitOptions(joined=True))


LOCATED = """
let a = x[gid.x] * 3u
if a > 5u {
  for k in 0u .. a { y[gid.x] = y[gid.x] + k }
} else {
  trap(a, "low")
}
barrier(seq_cst)
let b = atomic_add(c, 0u, a)
"""


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("counting", [False, True])
def test_places_change_no_machine_code(effort: Effort, counting: bool) -> None:
    body = LOCATED.replace("barrier(seq_cst)\n", "")
    for text in (body, body.replace('trap(a, "low")', "y[gid.x] = 2u")):
        program = _program(text, "buffer c @2 read_write u32[1]\n")
        plain = EmitOptions(lanes=8, counting=counting)
        texts = [emit(program, options).text for options in (plain, plain._replace(located=True))]
        assert "!dbg" not in texts[0] and "!DILocation(line: " in texts[1]
        codes = [compile_object(text, host(), effort) for text in texts]
        assert _sections(codes[0]) == _sections(codes[1])


def _sections(data: bytes) -> bytes:
    """The machine code of an object: its section ``.text``."""
    headers, size, count, names = (
        int.from_bytes(data[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62), (62, 64))
    )
    found = [data[headers + size * n : headers + size * (n + 1)] for n in range(count)]

    def field(header: bytes, start: int, end: int) -> int:
        return int.from_bytes(header[start:end], "little")

    strings = field(found[names], 24, 32)
    for header in found:
        start = strings + field(header, 0, 4)
        if data[start : data.index(b"\0", start)] == b".text":
            offset, nbytes = field(header, 24, 32), field(header, 32, 40)
            return data[offset : offset + nbytes]
    raise AssertionError("the object has no code")


@pytest.mark.parametrize("joined", [False, True])
def test_code_for_one_lane_is_scalar(joined: bool) -> None:
    """No vector, no mask in memory, and no program that would have to be written for one lane and for several."""
    programs = [example.program() for example in examples().values()]
    emitted = [emit(p, EmitOptions(lanes=1, joined=joined)) for p in programs if can_join(p) or not joined]
    scalar = [code.text for code in emitted if code.lanes == 1]
    assert len(scalar) > 20
    for text in scalar:
        assert not re.search(r"<\d+ x |llvm\.masked\.|splat \(", text)
