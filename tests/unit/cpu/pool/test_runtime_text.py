"""The runtime's text compiles for every machine that it is written for, and asks for few functions."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Effort, assembly, compile_object
from vyre.adapters.cpu.native.elf import exported_names
from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures
from vyre.adapters.cpu.pool import entries, layout
from vyre.adapters.cpu.pool.machine import Target
from vyre.adapters.cpu.pool.translation import runtime_text
from vyre.adapters.cpu.pool.words import Record
from vyre.domain.errors import UnsupportedFeature

TARGETS = [Target(arch, system) for arch in (X86_64, AARCH64) for system in ("linux", "darwin")]


@pytest.mark.parametrize("target", TARGETS)
def test_the_text_is_the_same_each_time(target: Target) -> None:
    assert runtime_text(target) == runtime_text(target)


@NEEDS_LLVM
@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("target", TARGETS)
def test_it_compiles_without_features(target: Target, effort: Effort) -> None:
    features = CpuFeatures(target.arch, (), 128)
    code = compile_object(runtime_text(target), features, effort, system=target.system)
    assert exported_names(code, target.arch) == tuple(
        sorted(re.findall(r"^define \w+ @(\w+)", runtime_text(target), re.M))
    )


@NEEDS_LLVM
@pytest.mark.parametrize("target", TARGETS)
def test_it_has_the_instructions_of_its_machine(target: Target) -> None:
    text = assembly(runtime_text(target), CpuFeatures(target.arch, (), 128), Effort.FULL, system=target.system)
    words = set(re.findall(r"[a-z_0-9]+", text.lower()))
    assert ({"ldmxcsr", "stmxcsr", "pause"} if target.arch == X86_64 else {"fpcr", "yield"}) <= words
    assert ("syscall" in words) == (target.system == "linux")
    assert ("usleep" in words) == (target.system == "darwin")


@pytest.mark.parametrize("target", [Target("riscv64", "linux"), Target(X86_64, "win32")])
def test_other_machines_are_refused(target: Target) -> None:
    with pytest.raises(UnsupportedFeature, match=f"native code on {target.arch} {target.system}"):
        runtime_text(target)


def records() -> list[type[Record]]:
    return [value for value in vars(layout).values() if isinstance(value, type) and issubclass(value, Record)]


@pytest.mark.parametrize("record", [record for record in records() if record is not Record])
def test_the_records_do_not_overlap(record: type[Record]) -> None:
    """Every field begins on a multiple of its size, and ends before the next one that is no part of it."""
    fields = sorted(
        (getattr(record, name), 4 if "32" in type else 8)
        for owner in record.__mro__
        for name, type in vars(owner).get("__annotations__", {}).items()
        if type.startswith(("Field", "Inline"))
    )
    inline = record in (layout.Runner, layout.Frame, layout.Table, layout.StepTable, layout.RingCode)
    assert all(place % nbytes == 0 and (inline or place + nbytes <= record.BYTES) for place, nbytes in fields)
    shared = {"Command", "Job", "Runner", "Team", "Ring"}  # have words that are halves of others, or one of several
    if record.__name__ not in shared:
        assert all(place + nbytes <= following for (place, nbytes), (following, _) in pairwise(fields))


def test_the_python_side_asks_for_what_the_program_exports() -> None:
    source = Path(entries.__file__).read_text(encoding="utf-8")
    asked = {f"vyre_pool_{name}" for name in re.findall(r'entry\(\s*"(\w+)"', source)}
    defined = re.findall(r"^define \w+ @(vyre_\w+)", runtime_text(TARGETS[0]), re.M)
    assert asked == set(defined)
    assert len(defined) == len(asked) == 23
