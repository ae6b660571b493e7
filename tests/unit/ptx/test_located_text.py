"""Text with the lines of the user's source: the same instructions, for every reader of PTX."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest

import vyre
from support.kernels import kernel
from support.programs import generate
from support.ptx_interpreter.campaign import compare_example
from support.ptx_interpreter.engine import SCHEDULES
from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.code_tools import assemble, assemblers
from vyre.adapters.cuda.machine.ptx_syntax import parse
from vyre.adapters.cuda.ptx.emit import HEADER_LINES, emit, sites
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys
from vyre.app.emission import emission_keys
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.gallery.registry import BASICS, load
from vyre.ir import SourceLocation

LOCATED: Final = EmitOptions(located=True)
LOC: Final = re.compile(r"\t\.loc (\d+) (\d+) (\d+)")
AWKWARD: Final = 'a b/"quoted"\\//*é;{}.mini'


def front_end(first: int, file: str = AWKWARD) -> Program:
    """A program whose two statements stand on the lines ``first`` and ``first + 1``."""
    with ProgramBuilder("moved", workgroup=32) as p:
        y = p.inout("y", u32)
        with p.if_(p.global_id() < y.length, loc=SourceLocation(file, first, 4)), p.at(SourceLocation(file, first + 1)):
            y[p.global_id()] = y[p.global_id()] * 3
    return p.build()


def records(text: str) -> str:
    """Returns the instructions that the emulated device parses, without line numbers and derived names."""
    return re.sub(r"\bline=\d+", "", repr(parse(unnamed(text))))


def unnamed(text: str) -> str:
    return re.sub(r"vy_[0-9a-f]{16}", "vy", text)


def programs() -> list[Program]:
    return [*(load(f"basics.{module}").program() for module in BASICS), *(generate(seed).program for seed in range(40))]


def test_the_instructions_are_those_of_the_text_without_lines() -> None:
    named = 0
    for program in programs():
        try:
            plain = emit(program).ptx
        except UnsupportedFeature:
            continue
        located = emit(program, LOCATED)
        assert records(located.ptx) == records(plain)
        without = re.sub(r"(?m)^(\t\.loc|\.file) .*\n", "", located.ptx)
        assert unnamed(without) == unnamed(plain)
        named += bool(LOC.search(located.ptx))
    assert named > len(BASICS) // 2


def test_each_line_is_one_of_the_source() -> None:
    text = emit(front_end(7), LOCATED).ptx
    assert [found.groups() for found in LOC.finditer(text)] == [("1", "7", "4"), ("1", "8", "0")]
    assert re.findall(r"(?m)^\.file .*$", text) == ['.file 1 "a b/%22quoted%22%5C//%2A%C3%A9%3B%7B%7D.mini"']
    store = next(n for n, line in enumerate(text.split("\n")) if "st.global" in line)
    last = [found for line in text.split("\n")[:store] if (found := LOC.match(line))][-1]
    assert last.groups() == ("1", "8", "0")


def test_lines_that_ptx_cannot_count_are_left_out() -> None:
    for line, column, written in ((2**32 - 1, 2**40, [("1", str(2**32 - 1), str(2**32 - 1))]), (2**32, 1, [])):
        loc = SourceLocation("f", line, column)
        body = tuple([replace(stmt, loc=loc) for stmt in kernel().body])
        text = emit(replace(kernel(), body=body), LOCATED).ptx
        assert [found.groups() for found in LOC.finditer(text)] == written[: len(body)]


def test_sites_of_located_text_are_at_its_lines() -> None:
    module, text = front_end(7), emit(front_end(7), LOCATED).ptx.split("\n")
    assert text[HEADER_LINES].startswith(".file 1")
    (found,) = sites(module, LOCATED).values()
    store = next(n for n, line in enumerate(text, 1) if "st.global" in line)
    assert found.at(store).buffer == "y" and found.at(store).locs == (SourceLocation(AWKWARD, 8),)


@pytest.mark.parametrize("module", BASICS[2:24:7])
def test_outputs_are_those_of_other_engines(module: str) -> None:
    assert compare_example(f"basics.{module}", SCHEDULES[0], "located").complaint == ""


def test_no_key_is_that_of_other_lines() -> None:
    assert front_end(1).digest == front_end(2).digest
    programs = [front_end(1), front_end(2), front_end(1, "other.mini")]
    keys = {ptx_keys(options).key(program).digest for program in programs for options in (LOCATED, DEFAULT_OPTIONS)}
    assert len(keys) == 4  # one without lines
    names = {emit(program, options).kernels[0].entry for program in programs for options in (LOCATED, DEFAULT_OPTIONS)}
    assert len(names) == 4
    assert emission_keys(front_end(1), locations=True) != emission_keys(front_end(1))
    assert emission_keys(front_end(1), locations=True) == emission_keys(front_end(1), locations=True)


def test_the_public_emission_takes_the_option() -> None:
    assert ".loc 1 8 0" in vyre.emit(front_end(7), locations=True).text
    assert ".loc" not in vyre.emit(front_end(7)).text
    with pytest.raises(vyre.VyreError, match="locations"):
        vyre.emit(front_end(7), locations=1)  # type: ignore[arg-type]
    kernel = vyre.emit(front_end(7), target="cpu", locations=True)
    assert kernel.text == vyre.emit(front_end(7), target="cpu").text


def test_the_assembler_takes_lines_and_keeps_them() -> None:
    found = assemblers()
    if not found:
        pytest.skip("no ptxas: install the dependency group `ptxas`")
    for program in (front_end(7), *(load(f"basics.{module}").program() for module in BASICS[:3])):
        text = emit(program, LOCATED).ptx
        cubin, _ = assemble(found[0], text, "sm_90", "-lineinfo")
        assert b".debug_line" in cubin
        name = re.findall(r'(?m)^\.file 1 ".*?([^/"]+)"$', text)
        assert all(part.encode() in cubin for part in name)
