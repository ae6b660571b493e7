"""Identity of programs: a digest of everything that can change a result, and of nothing else."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blake3 import blake3

    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.program import Program

DIGEST_DOMAIN: Final = b"vyre.program.v1\0"
DEFINED_DOMAIN: Final = b"vyre.program.v2\0"
DEFINITION_DOMAIN: Final = b"vyre.definition.v1\0"
NAMES_DOMAIN: Final = b"vyre.names.v1\0"
_CACHE_KEY: Final = "digest"


def program_digest(program: Program) -> bytes:
    """Returns BLAKE3-256 of ``DIGEST_DOMAIN`` and the semantic body: 32 bytes, computed once per program.

    For a program with definitions it is that of ``DEFINED_DOMAIN``, their number as four bytes in little-endian order,
    the digest of each, and the semantic body.

    Two programs that differ only in names, labels, hints, source locations and the numbers (not the order) of
    bindings share it.  Raises ``InvalidProgram`` if a name in the program does not resolve.
    """
    digest = program._cache.get(_CACHE_KEY)
    if not isinstance(digest, bytes):
        definitions = [each.digest for each in program.definitions] if program.definitions else []
        digest = program._cache[_CACHE_KEY] = body_digest(_encoder()(program), definitions)
    return digest


def body_digest(body: bytes, definitions: Sequence[bytes] = ()) -> bytes:
    """Returns the digest of a program with this semantic body and the digests of its definitions, 32 bytes."""
    if not definitions:
        return _hash()(DIGEST_DOMAIN + body).digest()
    count = len(definitions).to_bytes(4, "little")
    return _hash()(b"".join((DEFINED_DOMAIN, count, *definitions, body))).digest()


def definition_digest(definition: Definition) -> bytes:
    """Returns BLAKE3-256 of ``DEFINITION_DOMAIN`` and what changes the results of a definition, 32 bytes.

    Raises ``InvalidProgram`` if a name in the definition does not resolve.
    """
    from vyre.domain.ir.wire_encoder import encode_definition  # on use, as below

    return encoded_definition_digest(encode_definition(definition).body)


def encoded_definition_digest(body: bytes) -> bytes:
    """Returns the digest of a definition that is encoded as ``body``, 32 bytes."""
    return _hash()(DEFINITION_DOMAIN + body).digest()


def names_digest(names: bytes) -> bytes:
    """Returns the checksum of a names section, 32 bytes."""
    return _hash()(NAMES_DOMAIN + names).digest()


@cache
def _encoder() -> Callable[[Program], bytes]:
    from vyre.domain.ir.wire_encoder import encode_body  # on use, as below

    return encode_body


@cache
def _hash() -> Callable[[bytes], blake3]:
    from blake3 import blake3  # on use: most who import this module hash nothing

    return blake3


def remember_digest(program: Program, digest: bytes) -> None:
    """Caches on the program a digest that another computation produced."""
    program._cache[_CACHE_KEY] = digest
