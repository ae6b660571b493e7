"""Keys of exact input tuples: equal inputs have equal keys, and tuple boundaries matter.

A key is a 256-bit BLAKE3 digest over framed bytes, so it may represent the inputs themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blake3 import blake3

from vyre.domain.byte_view import byte_view
from vyre.domain.dispatch import ReadableBuffer
from vyre.domain.program_report import InvalidProgram

_DOMAIN: Final = b"vyre.input-identity.domain.v1"


def exact_input_key(inputs: Sequence[ReadableBuffer]) -> bytes:
    """Returns BLAKE3, 32 bytes, of the count and of each input preceded by its byte length (u64, little-endian)."""
    state = blake3()
    _absorb(state, inputs)
    return state.digest()


def domain_separated_exact_input_key(
    domain_tag: bytes, domain_id: int, feature_key: int, inputs: Sequence[ReadableBuffer]
) -> bytes:
    """Returns ``exact_input_key`` in the key space of a tag, a u64 id and u64 feature bits.

    Raises ``InvalidProgram`` for an empty tag, and ``OverflowError`` for an id or key outside u64.
    """
    if not domain_tag:
        raise InvalidProgram("the domain tag of an input key is empty", fix="name the cache that the key belongs to.")
    state = blake3(_DOMAIN + _u64(len(domain_tag)) + domain_tag + _u64(domain_id) + _u64(feature_key))
    _absorb(state, inputs)
    return state.digest()


def _absorb(state: blake3, inputs: Sequence[ReadableBuffer]) -> None:
    state.update(_u64(len(inputs)))
    for data in inputs:
        view = byte_view(data)
        state.update(_u64(view.nbytes))
        state.update(view)


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
