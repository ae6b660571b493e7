"""A whole chunk of 2^26 inputs of each transcendental function as machine code, by its recorded checksum.

``python -m benchmarks.cpu_functions`` runs all 64 chunks.
"""

from __future__ import annotations

import json
from typing import Final

import pytest

pytest.importorskip("llvmlite", reason="machine code is made by the optional package llvmlite")

from benchmarks.cpu_functions import CHECKSUMS, differing_chunks, module_text

from vyre.adapters.cpu.native.compilation import Pipeline
from vyre.adapters.cpu.native.features import host
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp

_WANTED: Final[dict[str, list[str]]] = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
_OPS: Final = sorted(TRANSCENDENTALS, key=lambda op: op.name)
_LANES: Final = {128: 4, 256: 8, 512: 16}
_CHUNK_OF_SMALL_NUMBERS: Final = 15
"""Numbers from 2^-7 to 2, where the functions have the most values of their own."""


@pytest.mark.parametrize("op", _OPS, ids=lambda op: op.name.lower())
def test_a_chunk_of_results_has_the_recorded_checksum(op: UnaryOp) -> None:
    text = module_text(op, _LANES[host().vector_bits])
    wanted = _WANTED[op.name.lower()]
    assert differing_chunks(text, host(), Pipeline.LIGHT, wanted, [_CHUNK_OF_SMALL_NUMBERS]) == []


def test_a_checksum_tells_functions_apart() -> None:
    text = module_text(UnaryOp.COS, _LANES[host().vector_bits])
    assert differing_chunks(text, host(), Pipeline.LIGHT, _WANTED["sin"], [_CHUNK_OF_SMALL_NUMBERS]) != []
