"""Every kernel at hand assembles without spilling a register: in a soak for every target, else for one of them, which
its name draws so that each target assembles its share of all kernels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from support.cuda.ptxas import TARGETS, GateReport, assemble_all
from support.profiles import SOAK
from support.widened_programs import widened_cases
from vyre.adapters.cuda.code_tools import Assembler, assemblers
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import validate
from vyre.gallery.registry import examples
from vyre.testing.filetests import load_filetests
from vyre.testing.operator_matrix import operator_matrix

FILETESTS = Path(__file__).parents[1] / "filetests"
MAY_SPILL: frozenset[str] = frozenset()
"""Programs that are known to spill, by name."""
MOST_STATIC_SHARED = 49_152


pytestmark = pytest.mark.slow


@cache
def programs() -> tuple[tuple[str, Program], ...]:
    return tuple(every_program())


def every_program() -> Iterator[tuple[str, Program]]:
    for name, example in examples().items():
        yield f"gallery {name}", example.program()
    for case in operator_matrix():
        yield f"operators {case.name}", case.program
    for name, widened in widened_cases():
        yield f"widened {name}", widened.program
    for test in load_filetests([FILETESTS]):
        if test.program is not None and validate(test.program).ok:
            yield f"filetest {Path(test.filename).stem}", test.program


@cache
def emitted(target: int) -> dict[str, tuple[str, EmittedModule]]:
    """What can be emitted for a target, by entry: programs of one body share it."""
    found: dict[str, tuple[str, EmittedModule]] = {}
    for name, program in programs():
        try:
            module = emit(program, EmitOptions(target=target))
        except UnsupportedFeature:
            continue
        found.setdefault(module.kernels[0].entry, (name, module))
    return found


def is_tried(entry: str, target: int) -> bool:
    """Whether an entry is assembled for a target."""
    return SOAK or TARGETS.index(target) == crc32(entry.encode()) % len(TARGETS)


@pytest.fixture(scope="module")
def names() -> dict[int, dict[str, str]]:
    return {target: {entry: name for entry, (name, _) in emitted(target).items()} for target in TARGETS}


@pytest.fixture(scope="module")
def assembler() -> Assembler:
    found = assemblers()
    if not found:
        pytest.skip("no ptxas: install the dependency group `ptxas`")
    return found[0]


@pytest.fixture(scope="module")
def report(assembler: Assembler) -> GateReport:
    modules = (
        (target, [module for entry, (_, module) in emitted(target).items() if is_tried(entry, target)])
        for target in TARGETS
    )
    return assemble_all(assembler, modules, workers=os.cpu_count())


def test_no_kernel_is_refused(report: GateReport, names: dict[int, dict[str, str]]) -> None:
    refused = {f"{names[target][entry]} on sm_{target}": log for (target, entry), log in report.refused.items()}
    assert refused == {}


def test_every_kernel_was_assembled_for_every_target(report: GateReport, names: dict[int, dict[str, str]]) -> None:
    assert len(names[90]) > 400
    tried = {(t, e) for t in TARGETS for e in names[t] if is_tried(e, t)}
    assert tried <= report.resources.keys() | report.refused.keys()
    assert all(sum(is_tried(entry, target) for target in TARGETS) >= 1 for entry in names[90])
    assert all(sum(t == target for t, _ in tried) > 40 for target in TARGETS)


def test_no_kernel_spills(report: GateReport, names: dict[int, dict[str, str]]) -> None:
    spilling = {
        f"{names[target].get(entry, entry)} on sm_{target}"
        for (target, entry), needs in report.resources.items()
        if needs.spills and names[target].get(entry) not in MAY_SPILL
    }
    assert spilling == set()


def test_static_shared_memory_fits(report: GateReport) -> None:
    assert max(needs.shared for needs in report.resources.values()) <= MOST_STATIC_SHARED
