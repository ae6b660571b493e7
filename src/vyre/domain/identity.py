"""Identity of programs: a digest of everything that can change a result, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

DIGEST_DOMAIN: Final = b"vyre.program.v1\0"
NAMES_DOMAIN: Final = b"vyre.names.v1\0"
_CACHE_KEY: Final = "digest"


def program_digest(program: Program) -> bytes:
    """Returns BLAKE3-256 of ``DIGEST_DOMAIN`` and the semantic body: 32 bytes, computed once per program.

    Two programs that differ only in names, labels, hints, source locations and the numbers (not the order) of
    bindings share it.  Raises ``InvalidProgram`` if a name in the program does not resolve.
    """
    digest = program._cache.get(_CACHE_KEY)
    if not isinstance(digest, bytes):
        from vyre.domain.ir.wire_encoder import encode_body

        digest = body_digest(encode_body(program))
        remember_digest(program, digest)
    return digest


def body_digest(body: bytes) -> bytes:
    """Returns the digest of a program with this semantic body, 32 bytes."""
    from blake3 import blake3

    return blake3(DIGEST_DOMAIN + body).digest()


def names_digest(names: bytes) -> bytes:
    """Returns the checksum of a names section, 32 bytes."""
    from blake3 import blake3

    return blake3(NAMES_DOMAIN + names).digest()


def remember_digest(program: Program, digest: bytes) -> None:
    """Caches on the program a digest that another computation produced."""
    program._cache[_CACHE_KEY] = digest
