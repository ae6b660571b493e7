"""Malformed ``.vyrb`` data: the decoder refuses it with ``MalformedWire``, and accepts one encoding per program."""

from __future__ import annotations

import random
from typing import Final

import pytest

from support.fuzzing.form_corpus import CORPUS, lit, program, storage, store
from vyre.domain.errors import MalformedWire
from vyre.domain.identity import body_digest, names_digest
from vyre.domain.ir import wire_format as w
from vyre.domain.ir.expr import CONVERSIONS, FUNCTIONS, Binary, BufferLength, IdKind, LaunchId, Load, SpecConst, Var
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Program
from vyre.domain.ir.stmt import AsyncWait, Block, If, Let, Loop, Region, Store
from vyre.domain.ir.types import ScalarType, u32
from vyre.domain.ir.wire import encode
from vyre.domain.ir.wire_encoder import encode_body, encode_sections, uleb
from vyre.domain.program_report import InvalidProgram

decode: Final = Program.from_wire
GID = LaunchId(IdKind.GLOBAL, 0)
# out[gid.x] = src[gid.x + 3u]
SHIFT: Final = program(
    Store("out", GID, Load("src", Binary(BinaryOp.ADD, GID, lit(3)))),
    buffers=(storage("src", 0, access=Access.READ_ONLY, count=70), storage("out", 1, count=70, is_output=True)),
)
VALID: Final = encode(SHIFT)
BODY, NAMES = encode_sections(SHIFT)


def sealed(body: bytes = BODY, names: bytes = NAMES) -> bytes:
    """A file with fitting digests."""
    header = w.MAGIC + bytes((w.VERSION,)) + body_digest(body) + names_digest(names)
    return header + uleb(0) + uleb(len(body)) + body + names


def refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedWire, match=message) as caught:
        decode(data)
    assert "Fix: " in str(caught.value)


def test_the_layout() -> None:
    assert sealed() == VALID
    assert encode_body(SHIFT) == BODY
    assert VALID[len(w.MAGIC) + 1 :][: w.DIGEST_BYTES] == SHIFT.digest == body_digest(BODY)
    assert decode(bytearray(VALID)) == decode(memoryview(VALID)) == SHIFT


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"VIR0" + VALID[4:], "magic"),
        (b"", "magic"),
        *(
            (w.MAGIC + bytes((version,)) + VALID[5:], f"it has version {version} of the format, this vyre reads 5")
            for version in (0, 1, 2, 3, 4, 6, 255)
        ),
        (VALID[:3], "magic"),
        (VALID[: w.HEADER_BYTES - 1], "truncated"),
        (VALID[: w.HEADER_BYTES], "ends too early"),
        (VALID[:-1], "digest"),
        (VALID + b"\0", "digest"),
        (sealed(names=NAMES + b"\0"), "bytes follow"),
        (sealed(body=BODY + bytes((w.END,))), "closes nothing"),
        (sealed(body=BODY[:-1]), "ends too early"),
        (bytes((64 << 20) + 1), "limit"),
    ],
)
def test_the_envelope_is_checked(data: bytes, message: str) -> None:
    refused(data, message)


def test_every_changed_byte_is_noticed() -> None:
    for position in range(len(VALID)):
        changed = bytearray(VALID)
        changed[position] ^= 0x10
        with pytest.raises(MalformedWire):
            decode(changed)


def test_every_truncation_is_noticed() -> None:
    for length in range(len(VALID)):
        with pytest.raises(MalformedWire):
            decode(VALID[:length])


def body_of(*statements: bytes, buffers: bytes = b"\1\1\0\0\1\0") -> bytes:
    """A body with workgroup (1, 1, 1) and, unless told otherwise, one read-write u32 buffer."""
    return b"\1\1\1" + buffers + b"".join(statements)


def names_of(
    *locals_: str, tags: tuple[str, ...] = (), blocks: bytes = b"\0", buffers: bytes = b"\1y\0\0\0\1\0"
) -> bytes:
    def strings(values: tuple[str, ...]) -> bytes:
        return uleb(len(values)) + b"".join(uleb(len(value)) + value.encode() for value in values)

    return b"\0" + buffers + strings(locals_) + strings(tags) + blocks


U32 = w.LITERAL[u32]
ONE = bytes((U32, 1))
BOOL = w.LITERAL[ScalarType.BOOL]
TRUE = bytes((BOOL, 1))
STORE = ONE + ONE + bytes((w.STORE, 0))
PADDED_ONE = bytes((U32, 0x81, 0x00))
CAST, IF, END, BLOCK = (bytes((opcode,)) for opcode in (CONVERSIONS["cast"].opcode, w.IF, w.END, w.BLOCK))
NESTED_VECTORS = bytes((0x14,)) * 1000


def test_the_test_helpers_write_what_the_encoder_writes() -> None:
    hand_made = sealed(body_of(STORE, buffers=b"\1\1\0\0\1\0"), names_of())
    assert encode(decode(hand_made)) == hand_made


BAD_SECTIONS: Final[dict[str, tuple[bytes, bytes, str]]] = {
    "overlong integer": (body_of(PADDED_ONE, ONE, bytes((w.STORE, 0))), names_of(), "shortest form"),
    "integer beyond 32 bits": (body_of(bytes((U32, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F))), names_of(), "too large"),
    "endless integer": (body_of(bytes((U32,)) + b"\x80" * 30), names_of(), "too large|too early"),
    "bool literal 7": (body_of(ONE, bytes((BOOL, 7, w.STORE, 0))), names_of(), "too large"),
    "flags of a buffer": (body_of(buffers=b"\1\1\x08\0\1\0"), names_of(), "unknown flags"),
    "flags of the names": (body_of(), b"\20" + names_of()[1:], "unknown flags"),
    "access": (body_of(buffers=b"\1\6\0\0\1\0"), names_of(), "unknown access"),
    "memory kind": (body_of(buffers=b"\1\1\0\x08\1\0"), names_of(), "unknown memory kind"),
    "element type": (body_of(buffers=b"\1\1\0\0\x7f\0"), names_of(), "unknown element type"),
    "type nested a thousand deep": (body_of(buffers=b"\1\1\0\0" + NESTED_VECTORS), names_of(), "nested more than"),
    "like a buffer that is none": (body_of(buffers=b"\1\1\2\0\1\0\1"), names_of(), "does not exist"),
    "too many buffers": (body_of(buffers=uleb(1 << 20)), names_of(), "too large"),
    "cast to a type that is none": (body_of(ONE, CAST + b"\x7f"), names_of(), "unknown scalar type"),
    "unknown opcode": (body_of(b"\x7f"), names_of(), "unknown opcode"),
    "unknown operator": (body_of(ONE, ONE, bytes((w.BINARY + 0x19,))), names_of(), "unknown opcode"),
    "axis": (body_of(bytes((w.LAUNCH_ID, 0, 3))), names_of(), "axis"),
    "no such buffer": (body_of(ONE, ONE, bytes((w.STORE, 1))), names_of(), "does not exist"),
    "no such local": (body_of(bytes((w.VAR, 0))), names_of(), "not visible"),
    "local of a closed scope": (
        body_of(TRUE, IF, ONE, bytes((w.LET,)), END, bytes((w.VAR, 0))),
        names_of("a"),
        "not visible",
    ),
    "operator without operands": (body_of(bytes((FUNCTIONS["select"].opcode,))), names_of(), "lacks operands"),
    "operand left over": (body_of(ONE, STORE), names_of(), "takes 2 operands, found 3"),
    "statement inside an expression": (body_of(ONE, bytes((w.RETURN,))), names_of(), "takes 0 operands"),
    "open body": (body_of(TRUE, IF), names_of(), "ends inside"),
    "else without if": (body_of(bytes((w.ELSE,))), names_of(), "belongs to no if"),
    "second else": (body_of(TRUE, IF, bytes((w.ELSE, w.ELSE))), names_of(), "belongs to no if"),
    "empty else": (body_of(TRUE, IF, bytes((w.ELSE, w.END))), names_of(), "else is empty"),
    "too few locals": (body_of(ONE, bytes((w.LET,))), names_of(), "too few names"),
    "too many locals": (body_of(), names_of("a"), "more names"),
    "shadowing": (body_of(ONE, bytes((w.LET,)), ONE, bytes((w.LET,))), names_of("a", "a"), "visible"),
    "too few blocks": (body_of(BLOCK, END), names_of(), "too few labels"),
    "too many blocks": (body_of(), names_of(blocks=b"\1\0"), "more names"),
    "kind of block": (body_of(BLOCK, END), names_of(blocks=b"\1\3"), "unknown kind of block"),
    "tags out of order": (body_of(bytes((w.ASYNC_WAIT, 1))), names_of(tags=("a", "b")), "first use"),
    "tag never used": (body_of(), names_of(tags=("a",)), "more async tags"),
    "two tags of one name": (
        body_of(bytes((w.ASYNC_WAIT, 0, w.ASYNC_WAIT, 1))),
        names_of(tags=("a", "a")),
        "same name",
    ),
    "spec constants out of order": (body_of(bytes((w.SPEC_CONST, 1))), names_of(), "first use"),
    "spec constant written twice": (
        body_of(bytes((w.SPEC_CONST, 0)), b"\1T" + ONE, bytes((w.SPEC_CONST, 1)), b"\1T" + ONE),
        names_of(),
        "written twice",
    ),
    "default of a spec constant": (body_of(bytes((w.SPEC_CONST, 0)), b"\1T\x08"), names_of(), "no literal"),
    "string that is not UTF-8": (body_of(), names_of(buffers=b"\1\xff\0\0\0\1\0"), "UTF-8"),
    "string longer than the data": (body_of(), names_of(buffers=b"\x7fy"), "too early"),
    "declaration order": (body_of(), names_of(buffers=b"\1y\0\0\0\1\1"), "permutation"),
    "names of two buffers": (
        body_of(buffers=b"\2\1\0\0\1\0\1\0\0\1\0"),
        names_of(buffers=b"\1y\0\0\0\1\0\1y\1\0\0\1\1"),
        "same name",
    ),
    "bindings out of order": (
        body_of(buffers=b"\2\1\0\0\1\0\1\0\0\1\0"),
        names_of(buffers=b"\1y\1\0\0\1\0\1z\1\0\0\1\1"),
        "order of their bindings",
    ),
    "interface after workgroup memory": (
        body_of(buffers=b"\2\3\0\1\1\1\1\0\0\1\0"),
        names_of(buffers=b"\1y\0\0\0\1\0\1z\1\0\0\1\1"),
        "order of their bindings",
    ),
    "unused workgroup memory out of order": (
        body_of(buffers=b"\2\3\0\1\1\2\3\0\1\1\1"),
        names_of(buffers=b"\1y\0\0\0\1\0\1z\0\0\0\1\1"),
        "out of order",
    ),
    "workgroup memory not numbered by first use": (
        body_of(bytes((w.LENGTH, 1)), ONE, bytes((w.STORE, 0)), buffers=b"\2\3\0\1\1\1\3\0\1\1\1"),
        names_of(buffers=b"\1y\0\0\0\1\0\1z\0\0\0\1\1"),
        "first use",
    ),
    "expression too deep": (body_of(ONE, bytes((w.UNARY + 2,)) * 129), names_of(), "more than 128 deep"),
    "statements too deep": (body_of((TRUE + IF) * 70, STORE, END * 70), names_of(), "more than 64 deep"),
}


@pytest.mark.parametrize("name", BAD_SECTIONS)
def test_sections_are_checked(name: str) -> None:
    body, names, message = BAD_SECTIONS[name]
    refused(sealed(body, names), message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (program(store(BufferLength("nope"))), "no buffer is named `nope`"),
        (program(store(Var("nope"))), "no local `nope`"),
        (program(Block((Let("a", lit(1)),)), store(Var("a"))), "no local `a`"),
        (program(Let("a", Var("a"))), "no local `a`"),
        (program(Let("a", lit(1)), Loop("a", lit(0), lit(1), lit(1), ())), "declared where it is visible"),
        (program(buffers=(storage("y", 0), storage("y", 1))), "same name"),
        (program(buffers=(storage("y", 0), storage("z", 0))), "same binding"),
        (program(buffers=(storage("y", 0, like="nope"),)), "sized like `nope`"),
        (program(buffers=(storage("s", 0, access=Access.WORKGROUP, like="s"),)), "sized like"),
    ],
)
def test_programs_whose_names_do_not_resolve_are_not_encoded(wrong: Program, message: str) -> None:
    for write in (encode, encode_body):
        with pytest.raises(InvalidProgram, match=message):
            write(wrong)


def edit(source: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(out) + 1)
        length = source.randrange(1, 9)
        match source.randrange(3):
            case 0:
                out[at : at + 1] = bytes((source.randrange(256),))
            case 1:
                del out[at : at + length]
            case 2:
                out[at:at] = out[at : at + length]
    return bytes(out)


def test_what_is_accepted_has_one_encoding() -> None:
    source = random.Random(1)
    accepted = 0
    for original in CORPUS.values():
        body, names = encode_sections(original)
        for _ in range(200):
            in_body = source.random() < 0.6
            data = sealed(edit(source, body), names) if in_body else sealed(body, edit(source, names))
            try:
                found = decode(data)
            except MalformedWire:
                continue
            accepted += 1
            assert encode(found) == data
    assert accepted > 30


def test_names_do_not_touch_the_body() -> None:
    def variant(local: str, tag: str, generator: str | None, name: str | None) -> Program:
        inner = (AsyncWait(tag), If(Var(local), (Store("y", lit(0), SpecConst("T", lit(4))),)))
        wrapped = Block(inner) if generator is None else Region(generator, inner, "source")
        return program(Let(local, lit(1)), wrapped, name=name)

    bodies = {encode_body(variant(*labels)) for labels in (("a", "t", None, None), ("b", "u", "g", "n"))}
    assert len(bodies) == 1
