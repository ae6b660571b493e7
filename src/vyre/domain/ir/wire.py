"""The binary form ``.vyrb``: ``decode(encode(p)) == p`` and ``encode(decode(b)) == b``.

``wire_format`` describes the layout.  Encoding needs a program whose names resolve (every program that validates
does); decoding accepts exactly the bytes that encoding writes and turns all others into ``MalformedWire``, in time
and memory bounded by the length of the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.errors import MalformedWire
from vyre.domain.identity import body_digest, encoded_definition_digest, names_digest, remember_digest
from vyre.domain.ir.limits import MAX_DEFINITIONS
from vyre.domain.ir.wire_decoder import decode_definitions, decode_sections
from vyre.domain.ir.wire_encoder import encode_definition, encode_sections, uleb
from vyre.domain.ir.wire_format import DIGEST_BYTES, HEADER_BYTES, MAGIC, MAX_WIRE_BYTES, VERSION
from vyre.domain.ir.wire_reader import WireReader
from vyre.domain.program_report import InvalidProgram

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program


def encode(program: Program, locations: bool = False) -> bytes:
    """Returns the program as ``.vyrb``, with or without the locations of its nodes; raises ``InvalidProgram`` if its
    names do not resolve or it takes too many bytes.
    """
    body, names = encode_sections(program, locations=locations)
    definitions = [encode_definition(each) for each in program.definitions]
    defined = uleb(len(definitions)) + b"".join([uleb(len(each.body)) + each.body for each in definitions])
    names = b"".join([each.names for each in definitions]) + names
    digest = body_digest(body, [encoded_definition_digest(each.body) for each in definitions])
    remember_digest(program, digest)
    header = MAGIC + bytes((VERSION,)) + digest + names_digest(names)
    data = b"".join((header, defined, uleb(len(body)), body, names))
    if len(data) > MAX_WIRE_BYTES:
        raise InvalidProgram(
            f"the program takes {len(data)} bytes; the limit is {MAX_WIRE_BYTES}",
            fix="shorten its names or split the program.",
        )
    return data


def decode(data: bytes | bytearray | memoryview, make: type[Program]) -> Program:
    """Returns the program that ``.vyrb`` data holds, as an instance of ``make``; raises ``MalformedWire``."""
    if len(data) > MAX_WIRE_BYTES:
        raise MalformedWire(f"the data has {len(data)} bytes; the limit is {MAX_WIRE_BYTES}")
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC:
        raise MalformedWire("the magic number is missing", fix="pass the bytes of a .vyrb file.")
    if len(data) < HEADER_BYTES:
        raise MalformedWire("the header is truncated")
    version = data[len(MAGIC)]
    if version != VERSION:
        raise MalformedWire(
            f"it has version {version} of the format, this vyre reads {VERSION}",
            fix="encode the program again with this release.",
        )
    reader = WireReader(data, HEADER_BYTES, len(data))
    definitions = _definition_sections(reader)
    body_length = reader.uleb()
    start = reader.position
    body = reader.take(body_length)
    names = reader.take(len(data) - reader.position)
    digest_start = len(MAGIC) + 1
    digest = body_digest(body, [encoded_definition_digest(data[start:end]) for start, end in definitions])
    if digest + names_digest(names) != data[digest_start : digest_start + 2 * DIGEST_BYTES]:
        raise MalformedWire("the digest does not match the content", fix="fetch the data again: it is damaged.")
    middle = start + body_length
    labels = WireReader(data, middle, len(data))
    defined = decode_definitions([WireReader(data, first, last) for first, last in definitions], labels)
    program = decode_sections(WireReader(data, start, middle), labels, make, defined)
    remember_digest(program, digest)
    return program


def _definition_sections(reader: WireReader) -> list[tuple[int, int]]:
    """Reads the encodings of the definitions, and returns start and end of each."""
    sections = []
    for _ in range(reader.uleb(MAX_DEFINITIONS)):
        length = reader.uleb()
        start = reader.position
        reader.take(length)
        sections.append((start, start + length))
    return sections
