"""Identity of programs: a digest of everything that can change a result, and of nothing else."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from blake3 import blake3

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
        digest = program._cache[_CACHE_KEY] = _hash()(DIGEST_DOMAIN + _encoder()(program)).digest()
    return digest


def body_digest(body: bytes) -> bytes:
    """Returns the digest of a program with this semantic body, 32 bytes."""
    return _hash()(DIGEST_DOMAIN + body).digest()


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
