"""A whole chunk of inputs of each function of an f32 as machine code, by its recorded checksum.

``python -m benchmarks.cpu_functions`` runs all chunks.
"""

from __future__ import annotations

from typing import Final

import pytest

pytest.importorskip("llvmlite", reason="machine code is made by the optional package llvmlite")

from benchmarks.cpu_functions import NAMES, Subject, differing_chunks, module_text

from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import host

_LANES: Final = {128: 4, 256: 8, 512: 16}


def _middle(subject: Subject) -> int:
    """The chunk of the numbers from 2^-7 to 2, or where chunks are shorter, of some of the subnormal numbers of f16."""
    return len(subject.checksums) * 15 // 64 - (5 if subject.counts_from_0 else 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_chunk_of_results_has_the_recorded_checksum(name: str) -> None:
    subject = Subject(name)
    text = module_text(subject, _LANES[host().vector_bits])
    assert differing_chunks(subject, text, host(), Effort.LIGHT, [_middle(subject)]) == []


def test_a_checksum_tells_functions_apart() -> None:
    sine = Subject("sin")
    text = module_text(Subject("cos"), _LANES[host().vector_bits])
    assert differing_chunks(sine, text, host(), Effort.LIGHT, [_middle(sine)]) == [_middle(sine)]
