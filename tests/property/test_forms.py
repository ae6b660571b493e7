"""Text, wire and JSON: each reads back what it wrote, and reads anything else to a program or a typed error."""

from __future__ import annotations

import copy
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.counting import at_most
from support.profiles import examples
from support.programs import Case, Order, any_cases, generate
from vyre.domain.errors import MalformedJson, MalformedText, MalformedWire
from vyre.domain.identity import body_digest, names_digest
from vyre.domain.ir import wire_format
from vyre.domain.ir.json_form import FORMAT
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.wire_encoder import encode_sections, uleb
from vyre.domain.program_report import InvalidProgram


def via_text(program: Program) -> Program:
    return Program.from_text(program.to_text())


def via_wire(program: Program) -> Program:
    return Program.from_wire(program.to_wire())


def via_json(program: Program) -> Program:
    return Program.from_json(json.loads(json.dumps(program.to_json())))


FORMS = (via_text, via_wire, via_json)


@pytest.mark.parametrize("form", FORMS)
@examples(30)
@given(case=any_cases())
def test_a_program_reads_back_equal(form: Callable[[Program], Program], case: Case) -> None:
    again = form(case.program)
    assert again == case.program
    assert again.digest == case.program.digest
    assert form(again) == again


@examples(30)
@given(case=any_cases())
def test_writing_is_deterministic(case: Case) -> None:
    copy = via_wire(case.program)
    assert copy.to_wire() == case.program.to_wire()
    assert copy.to_text() == case.program.to_text()
    assert copy.to_json() == case.program.to_json()


# Hostile input.  Memory and work are bounded by the length of the input, whatever it claims.


@contextmanager
def bounded(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        with at_most(calls=1_000 + 50 * size):
            yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (4 << 20) + 4000 * size, f"{peak} bytes for an input of {size}"


def decode_or_refuse(data: bytes) -> None:
    with bounded(len(data)):
        try:
            program = Program.from_wire(data)
        except MalformedWire:
            return
    assert program.to_wire() == data, "two encodings of one program"


def sealed(body: bytes, names: bytes, version: int) -> bytes:
    """A file whose digests fit, so that the decoder looks at the content."""
    header = wire_format.MAGIC + bytes((version,)) + body_digest(body) + names_digest(names)
    return header + uleb(0) + uleb(len(body)) + body + names


def mutated(source: random.Random, data: bytes, alphabet: bytes) -> bytes:
    """One to three edits: a byte changed, dropped, inserted, a span repeated, dropped or cut off."""
    out = bytearray(data)
    for _ in range(source.randrange(1, 4)):
        at, length = source.randrange(len(out) + 1), source.randrange(1, 9)
        match source.randrange(6):
            case 0:
                out[at : at + 1] = bytes((source.choice(alphabet),))
            case 1:
                del out[at : at + length]
            case 2:
                out[at:at] = bytes((source.choice(alphabet),))
            case 3:
                out[at:at] = out[at : at + length]
            case 4:
                del out[at:]
            case 5 if at < len(out):
                out[at] ^= 1 << source.randrange(8)
    return bytes(out)


SMALL = [generate(seed, order=order, work=1500, traps=True, indirect=True) for seed in range(12) for order in Order]
small_programs = st.sampled_from(SMALL).map(lambda case: case.program)
seeds = st.integers(0, 1 << 32)


@examples(150)
@given(program=small_programs, seed=seeds)
def test_mutated_wire_is_read_or_refused(program: Program, seed: int) -> None:
    source = random.Random(seed)
    body, names = encode_sections(program)
    alphabet = bytes(range(256))
    version = wire_format.VERSION if source.random() < 0.9 else source.randrange(256)
    match source.randrange(4):
        case 0:
            decode_or_refuse(mutated(source, program.to_wire(), alphabet))
        case 1:
            decode_or_refuse(sealed(body, mutated(source, names, alphabet), version))
        case _:
            decode_or_refuse(sealed(mutated(source, body, alphabet), names, version))


@examples(75)
@given(body=st.binary(max_size=200), names=st.binary(max_size=60))
def test_random_sections_are_read_or_refused(body: bytes, names: bytes) -> None:
    decode_or_refuse(body + names)
    decode_or_refuse(sealed(body, names, wire_format.VERSION))


@pytest.mark.parametrize("huge", [0x7FFF_FFFF, 0xFFFF_FFFF_FFFF, (1 << 63) - 1])
def test_a_claimed_size_is_not_believed(huge: int) -> None:
    body, names = encode_sections(SMALL[0].program)
    one, arms = bytes((wire_format.LITERAL[ScalarType.U32], 1)), bytes((wire_format.SWITCH, wire_format.ARM))
    decode_or_refuse(sealed(b"\1\1\1\0" + one + arms + uleb(huge) + one * 9, b"\0" * 4, wire_format.VERSION))
    for claim in (uleb(huge), uleb(1) * 2 + uleb(huge), uleb(1) * 3 + uleb(huge)):
        decode_or_refuse(sealed(claim, names, wire_format.VERSION))
        decode_or_refuse(sealed(claim + body, names, wire_format.VERSION))
        decode_or_refuse(sealed(body, claim, wire_format.VERSION))
    header = sealed(body, names, wire_format.VERSION)[: wire_format.HEADER_BYTES]
    decode_or_refuse(header + uleb(huge) + body + names)
    decode_or_refuse(header + uleb(0) + uleb(huge) + body + names)


def parse_or_refuse(text: str) -> None:
    with bounded(len(text)):
        try:
            program = Program.from_text(text)
        except MalformedText as error:
            assert error.loc is not None and error.loc.line >= 1
            return
    with suppress(InvalidProgram):  # what parses need not be valid, and names that clash have no written form
        assert via_text(program) == program


TEXT_ALPHABET = b" \n\t(){}[]<>=+-*/%&|^~!,.:;@#\"\\'0123456789abcdefilnortuxy_\x00\x7f"


@examples(150)
@given(program=small_programs, seed=seeds)
def test_mutated_text_is_read_or_refused(program: Program, seed: int) -> None:
    data = mutated(random.Random(seed), program.to_text().encode("utf-8", "surrogatepass"), TEXT_ALPHABET)
    parse_or_refuse(data.decode("utf-8", "replace"))


@examples(75)
@given(text=st.text(max_size=120))
def test_random_text_is_read_or_refused(text: str) -> None:
    parse_or_refuse(text)
    parse_or_refuse(f"kernel k workgroup 1\n{text}")


def read_json_or_refuse(value: Any) -> None:
    with bounded(len(json.dumps(value))):
        try:
            program = Program.from_json(value)
        except MalformedJson:
            return
    with suppress(InvalidProgram):
        assert via_json(program) == program


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 65), 1 << 65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def json_sites(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        item = stack.pop()
        keys = range(len(item)) if isinstance(item, list) else list(item) if isinstance(item, dict) else ()
        for key in keys:
            found.append((item, key))
            stack.append(item[key])
    return found


@examples(150)
@given(program=small_programs, seed=seeds, junk=json_values)
def test_mutated_json_is_read_or_refused(program: Program, seed: int, junk: Any) -> None:
    source = random.Random(seed)
    value = json.loads(json.dumps(program.to_json()))
    if source.random() < 0.2:
        value["format"] = f"vyre-program/{source.randrange(9)}"
    for _ in range(source.randrange(1, 3)):
        container, key = source.choice(json_sites(value))
        match source.randrange(4):
            case 0:
                container[key] = copy.deepcopy(junk)
            case 1:
                del container[key]
            case 2:
                other, its_key = source.choice(json_sites(value))
                container[key] = json.loads(json.dumps(other[its_key]))
            case 3 if isinstance(container, list):
                container.insert(key, copy.deepcopy(junk))
    read_json_or_refuse(value)


@examples(50)
@given(value=json_values)
def test_random_json_is_read_or_refused(value: Any) -> None:
    read_json_or_refuse(value)
    for part in ("entry", "definitions"):
        read_json_or_refuse({"format": FORMAT, "entry": [], part: value, "buffers": [], "workgroup_size": [1, 1, 1]})
