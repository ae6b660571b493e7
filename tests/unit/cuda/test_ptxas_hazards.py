"""The table of miscompiles against the assemblers at hand, read from the machine code they write."""

from __future__ import annotations

import re
import struct
import warnings
from functools import cache
from itertools import product

import pytest

from gpu_runs.check.reduced_ptx import reduced_ptx
from gpu_runs.check.reproducers import NEVER_EMITTED, REPRODUCERS
from support.cuda.ptxas import assemble
from support.sass import listings
from vyre.adapters.cuda.code_tools import Assembler, assemblers, find_tools
from vyre.adapters.cuda.decisions.ptx_target import TargetInputs, select_target
from vyre.adapters.cuda.decisions.ptxas_hazard_table import (
    ALL_FENCES,
    EVERYWHERE,
    HAZARDS,
    Fence,
    Hazard,
    Remedy,
)
from vyre.adapters.cuda.decisions.ptxas_hazards import AssemblerInputs, fences_needed
from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.seam import LaunchShape

REDUCED = [hazard for hazard in HAZARDS if hazard.name in REPRODUCERS]
ASSEMBLERS = assemblers()
needs_tools = pytest.mark.skipif(
    not ASSEMBLERS or not find_tools("nvdisasm"), reason="no ptxas and nvdisasm: install the dependency group `ptxas`"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "assembler" in metafunc.fixturenames:
        metafunc.parametrize("assembler", ASSEMBLERS, ids=[assembler.build for assembler in ASSEMBLERS])


@cache
def listed(assembler: Assembler, target: int, level: int) -> dict[str, str]:
    """Machine code of every body of the table, assembled together."""
    version = select_target(TargetInputs(target))
    texts = [
        reduced_ptx(entry_of(hazard, body), body, version.version_text, version.text)
        for hazard in REDUCED
        for body in REPRODUCERS[hazard.name][:2]
    ]
    header = texts[0].index(".visible")
    module = texts[0][:header] + "".join(text[header:] for text in texts)
    cubin, _ = assemble(assembler, module, target, f"-O{level}")
    return listings(find_tools("nvdisasm")[0], cubin)


def entry_of(hazard: Hazard, body: str) -> str:
    return hazard.name.replace("-", "_") + ("_remedied" if body == REPRODUCERS[hazard.name].remedied else "_reduced")


def is_wrong(hazard: Hazard, body: str, assembler: Assembler, target: int, level: int = 3) -> bool:
    code = listed(assembler, target, level)[entry_of(hazard, body)]
    return re.search(REPRODUCERS[hazard.name].wrong, code, re.MULTILINE | re.DOTALL) is not None


@pytest.mark.slow
@needs_tools
def test_miscompiles_are_as_recorded_and_the_remedy_removes_each(assembler: Assembler) -> None:
    """Versions recorded as sound must be so; one recorded as broken that is not any more is only reported.

    All hazards are of one test, so that one process assembles them for every target, once.
    """
    failures = []
    for hazard in REDUCED:
        reproducer = REPRODUCERS[hazard.name]
        wrong = {t for t in EVERYWHERE if is_wrong(hazard, reproducer.reduced, assembler, t)}
        recorded = set(hazard.broken.get(assembler.version, ()))
        if (assembler.version in hazard.sound or recorded) and not wrong <= recorded:
            failures.append(f"{hazard.name} is miscompiled on {sorted(wrong - recorded)}")
        elif wrong != recorded:
            report(f"{hazard.name}: ptxas {assembler.build} is broken on {sorted(wrong)}, not on {sorted(recorded)}")
        if still := [t for t in EVERYWHERE if is_wrong(hazard, reproducer.remedied, assembler, t)]:
            failures.append(f"the remedy of {hazard.name} does not help on {still}")
    assert failures == []


@pytest.mark.slow
@needs_tools
def test_nothing_is_miscompiled_without_optimisation(assembler: Assembler) -> None:
    for hazard in REDUCED:
        wrong = [t for t in (75, 90, 120) if is_wrong(hazard, REPRODUCERS[hazard.name].reduced, assembler, t, 0)]
        assert wrong == [], hazard.name


def report(finding: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(finding, stacklevel=2)


def test_unknown_assemblers_get_every_fence() -> None:
    assert all(fences_needed(AssemblerInputs(target)) == ALL_FENCES for target in EVERYWHERE)


def test_only_recorded_versions_leave_a_fence_out() -> None:
    recorded = {version for hazard in HAZARDS for version in hazard.sound}
    versions = set(product((11, 12, 13, 14), range(10)))
    for version in versions - recorded:
        assert fences_needed(AssemblerInputs(90, version)) == ALL_FENCES
    assert fences_needed(AssemblerInputs(90, (13, 0))) == ALL_FENCES
    assert fences_needed(AssemblerInputs(90, (13, 5))) == {Fence.ROTATES, Fence.LOOPS, Fence.PRODUCTS}


def test_targets_nobody_looked_at_get_every_fence() -> None:
    assert fences_needed(AssemblerInputs(130, (13, 5))) == ALL_FENCES


def test_every_fence_has_a_hazard() -> None:
    assert {hazard.fence for hazard in HAZARDS} - {None} == ALL_FENCES
    assert all((hazard.remedy is Remedy.FENCE) is (hazard.fence is not None) for hazard in HAZARDS)


def test_no_version_is_both_broken_and_sound() -> None:
    assert [h.name for h in HAZARDS if set(h.broken) & set(h.sound)] == []


def test_remedied_bodies_contain_nothing_that_is_never_emitted() -> None:
    assert REPRODUCERS.keys() <= {hazard.name for hazard in HAZARDS}
    for name, reproducer in REPRODUCERS.items():
        for line in reproducer.remedied.split():
            assert not any(re.match(pattern, line) for pattern in NEVER_EMITTED), (name, line)


@pytest.mark.parametrize("hazard", [pytest.param(h, id=h.name) for h in REDUCED])
def test_the_remedied_body_computes_what_is_recorded(hazard: Hazard) -> None:
    reproducer = REPRODUCERS[hazard.name]
    version = select_target(TargetInputs(90))
    text = reduced_ptx("remedied", reproducer.remedied, version.version_text, version.text)
    memory = DeviceMemory()
    word = memory.allocate(4)
    memory.write(word, reproducer.n.to_bytes(4, "little"))
    parameters = struct.pack("<QII", word, reproducer.n, 0)
    KernelRun(
        load_module(text).entries["remedied"], LaunchShape((1, 1, 1), (1, 1, 1)), parameters, memory, RunOptions()
    ).finish()
    assert int.from_bytes(memory.read(word, 4), "little") == reproducer.right
