"""What reading and writing may cost, and that the limits of the written forms are the same in all of them."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from support.fuzzing.form_corpus import CORPUS, lit, program, storage, store
from vyre.domain.errors import MalformedJson, MalformedText, MalformedWire, VyreError
from vyre.domain.ir import json_tree, text_expressions, text_printer, wire, wire_decoder
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.expr import Load, Var, walk
from vyre.domain.ir.limits import MAX_NAME_BYTES
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.stmt import Let, Region, Trap, operands, own_size
from vyre.domain.ir.text_format import quoted
from vyre.domain.ir.text_lexer import tokenize
from vyre.domain.ir.types import ReservedType, u32
from vyre.domain.ir.walk import program_statements
from vyre.domain.ir.wire_reader import WireReader
from vyre.domain.program_report import InvalidProgram
from vyre.testing.filetest_syntax import parse_filetest

HEAD = "workgroup_size 1, 1, 1\nparam a @0 u32\nbuffer y @1 read_write u32[4]\nbody {\n"
LENGTH = 100_000
TEXTS = {
    "string": lambda n: '"' + "a" * n + '"',
    "escapes": lambda n: '"' + r"\n" * (n // 2) + '"',
    "open string": lambda n: '"' + r"\"" * (n // 2),
    "comment": lambda n: ";" + "a" * n,
    "comments": lambda n: ";\n" * (n // 2),
    "blanks": lambda n: " \n\t" * (n // 3),
    "name": lambda n: "a" * n,
    "digits": lambda n: "1" * n,
    "parentheses": lambda n: "(" * n,
    "names": lambda n: "a " * (n // 2),
    "numbers": lambda n: "1u " * (n // 3),
}


def peak_per_character(work: Callable[[str], object], text: str) -> float:
    tracemalloc.start()
    try:
        work(text)
    except VyreError:
        pass  # the text need not be right
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / len(text)


@pytest.mark.parametrize("name", TEXTS)
def test_the_lexer_takes_at_most_24_bytes_a_character(name: str) -> None:
    assert peak_per_character(lambda text: tokenize(text, "t"), TEXTS[name](LENGTH)) < 24


@pytest.mark.parametrize("name", TEXTS)
def test_a_line_of_a_filetest_takes_bounded_memory(name: str) -> None:
    text = f"{HEAD}}} ; run: -> {TEXTS[name](LENGTH)}"
    assert peak_per_character(lambda text: parse_filetest(text, "t"), text) < 64


@pytest.mark.parametrize("character", ["a", "\n", "\x1b", "\u4e2d", "\ud800"])
def test_quoting_takes_no_memory_beside_the_result(character: str) -> None:
    assert peak_per_character(quoted, character * LENGTH) < 3 * sys.getsizeof(quoted(character * 1000)) / 1000


def calls(work: Callable[[], object]) -> int:
    """Python and C functions called."""
    count = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


STATEMENTS = {
    "let": "let x{i} = a * {i}u + gid.x\n",
    "chain": "let x{i} = x{i} + x{i} + x{i} - min(x{i}, 0x1fu)\n",
    "store": "y[{i}u] = select(true, y[a], -1.5f)\n",
    "nested": "if a < {i}u {{ for k in 0u .. 4u {{ y[k] = a }} }} else if true {{ return }} else {{ }}\n",
    "else if": "if a < {i}u {{ }} else if a < 1u {{ y[0u] = a }} else if a < 2u {{ }}\n",
    "switch": "switch a + {i}u {{ case {i}u, 3u {{ y[0u] = narrow<u8>(a) }} case 7u {{ }} else {{ return }} }}\n",
    "quoted": 'region "r\\u{{1b}}" {{ let "let {i}" = "let {i}" }}\n',
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("form", ["text", "wire", "json"])
def test_reading_and_writing_are_linear(name: str, form: str) -> None:
    def work(statements: int) -> tuple[int, int]:
        text = HEAD + "".join(STATEMENTS[name].format(i=i) for i in range(statements)) + "}\n"
        if form == "text":
            return calls(lambda: Program.from_text(text)), calls(Program.from_text(text).to_text)
        if name in ("chain", "quoted"):  # their names do not resolve
            text = HEAD + "y[0u] = a\n" * statements + "}\n"
        source = Program.from_text(text)
        write: Callable[[], Any] = getattr(source, f"to_{form}")
        read: Callable[[Any], Program] = getattr(Program, f"from_{form}")
        written = write()
        return calls(lambda: read(written)), calls(write)

    few, many = work(50), work(500)
    for fewer, more in zip(few, many, strict=True):
        assert more < 10.5 * fewer


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_printing_does_not_look_through_all_locals_for_a_parameter() -> None:
    param = Buffer("a", 0, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH)
    lets = [Let(Compared(f"x{i}"), Load("a", lit(0))) for i in range(500)]
    Compared.comparisons = 0
    text = Program((param,), (1, 1, 1), tuple(lets)).to_text()
    assert "let x499 = a\n" in text
    assert Compared.comparisons < 10 * len(lets)


def size(source: Program) -> int:
    """Nodes with shared ones written out."""
    results = [each.result for each in source.definitions]
    return sum(1 for result in results for _ in walk(result)) + sum(
        own_size(stmt) + sum(1 for e in operands(stmt) for _ in walk(e)) for stmt in program_statements(source)
    )


@pytest.mark.parametrize("name", CORPUS)
def test_text_has_as_many_nodes_as_its_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CORPUS[name].to_text()
    nodes = size(CORPUS[name])
    monkeypatch.setattr(text_expressions, "MAX_NODES", nodes)
    assert Program.from_text(text) == CORPUS[name]
    monkeypatch.setattr(text_expressions, "MAX_NODES", nodes - 1)
    if nodes:
        with pytest.raises(MalformedText, match=f"more than {nodes - 1} nodes"):
            Program.from_text(text)


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("form", ["wire", "json"])
def test_other_forms_have_as_many_nodes_as_their_program(form: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = CORPUS[name].to_wire() if form == "wire" else CORPUS[name].to_json()
    read: Callable[[Any], Program] = Program.from_wire if form == "wire" else Program.from_json
    nodes = size(CORPUS[name])
    module = wire_decoder if form == "wire" else json_tree
    monkeypatch.setattr(module, "MAX_NODES", nodes)
    assert read(written) == CORPUS[name]
    monkeypatch.setattr(module, "MAX_NODES", nodes - 1)
    if nodes:
        with pytest.raises((MalformedWire, MalformedJson), match=f"more than {nodes - 1} nodes"):
            read(written)


def named(name: str) -> tuple[Program, ...]:
    """Programs with the name in every kind of place; wire has no names that do not resolve."""
    return (
        program(store(lit(1)), name=name),
        program(buffers=(storage(name, 0),)),
        program(Let(name, lit(1)), store(Var(name))),
        program(Region(name, ())),
        program(Region("r", (), name)),
        program(Trap(lit(1), name)),
        program(buffers=(storage("y", 0, ReservedType("quantized", (u32, "a", name))),)),
    )


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u4e2d", "\ud800", "\U0001f600"])
def test_every_form_has_the_same_limit_of_names(character: str) -> None:
    width = len(character.encode("utf-8", "surrogatepass"))
    longest = character * (MAX_NAME_BYTES // width)
    for kept in (named(longest)[0], named(longest)[6]):
        assert Program.from_text(kept.to_text()) == kept
        assert Program.from_wire(kept.to_wire()) == kept
        assert Program.from_json(json.loads(json.dumps(kept.to_json()))) == kept
    for refused in named(longest + character):
        for write in (refused.to_text, refused.to_json, refused.to_wire):
            with pytest.raises(
                InvalidProgram, match=f"(more than {MAX_NAME_BYTES} bytes|a name has|cannot be|no JSON)"
            ):
                write()


def test_names_beyond_the_limit_are_not_read() -> None:
    for written in ("a" * (MAX_NAME_BYTES + 1), f'"{"a" * (MAX_NAME_BYTES + 1)}"', '"' + r"\u{4e2d}" * 350_000 + '"'):
        with pytest.raises(MalformedText, match="bytes"):
            Program.from_text(f"program {written} {HEAD} }}")
    tree = program(name="n").to_json()
    with pytest.raises(MalformedJson, match="bytes"):
        Program.from_json({**tree, "entry_op_id": "\u4e2d" * 350_000})


def test_what_is_written_can_be_read_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source = CORPUS["statements"]
    text, data = source.to_text(), source.to_wire()
    for module, limit, length, write in (
        (text_printer, "MAX_TEXT_CHARACTERS", len(text), source.to_text),
        (wire, "MAX_WIRE_BYTES", len(data), source.to_wire),
    ):
        monkeypatch.setattr(module, limit, length)
        write()
        monkeypatch.setattr(module, limit, length - 1)
        with pytest.raises(InvalidProgram, match="takes"):
            write()


def test_the_place_of_a_bad_character_in_a_directive() -> None:
    with pytest.raises(MalformedText) as caught:
        parse_filetest(HEAD + "}\n; run: -> y=\x01\n", "t")
    assert str(caught.value.loc) == "t:6:13"


def test_an_integer_on_the_wire_ends_after_ten_bytes() -> None:
    reader = WireReader(b"\x80" * 1000 + b"\x01", 0, 1001)
    with pytest.raises(MalformedWire, match="too large"):
        reader.uleb()
    assert reader.position <= 10


def test_reading_keeps_the_collector_still() -> None:
    text = HEAD + STATEMENTS["let"].format(i=1).replace("x1", "x") * 3000 + "}\n"
    data, tree = Program.from_text(text).to_json(), program(*[store(lit(1))] * 3000).to_wire()
    collections: list[str] = []

    def note(phase: str, _: object) -> None:
        collections.append(phase)

    gc.callbacks.append(note)
    try:
        kept = (Program.from_text(text), Program.from_json(data), Program.from_wire(tree))
        counted = len(collections)
    finally:
        gc.callbacks.remove(note)
    assert kept
    assert counted <= 2 * 3  # what is due runs between the pauses
    assert gc.isenabled()


def test_a_pause_ends_with_an_error_and_leaves_a_stopped_collector_alone() -> None:
    with pytest.raises(MalformedText):
        Program.from_text("?")
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
