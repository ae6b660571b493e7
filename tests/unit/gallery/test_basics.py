"""P01 to P26 built by hand are the recorded programs, to the byte."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre.domain.ir.upstream import import_upstream
from vyre.gallery.example import mismatches
from vyre.gallery.registry import BASICS, load

VECTORS = Path(__file__).parents[2] / "data" / "vectors" / "ir-conformance.json.xz"
RECORDED: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in json.loads(lzma.decompress(VECTORS.read_bytes()))["programs"]
}


def test_there_is_an_example_for_every_recorded_program() -> None:
    assert [load(f"basics.{module}").name for module in BASICS] == sorted(RECORDED)


@pytest.mark.parametrize("module", BASICS)
def test_the_built_program_has_the_digest_of_the_recorded_one(module: str) -> None:
    example = load(f"basics.{module}")
    assert example.program().digest == import_upstream(RECORDED[example.name]["program"]).program.digest


@pytest.mark.parametrize("module", BASICS)
def test_inputs_and_independent_answers_are_the_recorded_ones(module: str) -> None:
    example = load(f"basics.{module}")
    case, program, recorded = example.case(), example.program(), RECORDED[example.name]
    taken = [buffer.name for buffer in program.abi_buffers if buffer.takes_input]
    assert [np.asarray(case.inputs[name]).tobytes().hex() for name in taken] == recorded["inputs"]
    returned = [buffer.name for buffer in program.abi_buffers if buffer.is_returned]
    assert list(case.expected) == returned
    outputs = {
        name: np.frombuffer(bytes.fromhex(data), case.expected[name].dtype)
        for name, data in zip(returned, recorded["expected"], strict=True)
    }
    assert mismatches(replace(case, tolerance_ulp=recorded["tolerance_ulp"]), outputs) == []
