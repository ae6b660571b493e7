"""The runtime's text compiles for every machine that it is written for, and asks for few functions."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Pipeline, assembly, compile_object
from vyre.adapters.cpu.native.elf import exported_names
from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures
from vyre.adapters.cpu.pool import layout
from vyre.adapters.cpu.pool.primitives import Target
from vyre.adapters.cpu.pool.text import runtime_text
from vyre.domain.errors import UnsupportedFeature

TARGETS = [Target(arch, system) for arch in (X86_64, AARCH64) for system in ("linux", "darwin")]


@pytest.mark.parametrize("target", TARGETS)
def test_the_text_is_the_same_each_time(target: Target) -> None:
    assert runtime_text(target) == runtime_text(target)


@NEEDS_LLVM
@pytest.mark.parametrize("pipeline", Pipeline)
@pytest.mark.parametrize("target", TARGETS)
def test_it_compiles_without_features(target: Target, pipeline: Pipeline) -> None:
    features = CpuFeatures(target.arch, (), 128)
    code = compile_object(runtime_text(target), features, pipeline, system=target.system)
    assert exported_names(code, target.arch) == tuple(sorted(layout.ENTRIES))


@NEEDS_LLVM
@pytest.mark.parametrize("target", TARGETS)
def test_it_has_the_instructions_of_its_machine(target: Target) -> None:
    text = assembly(runtime_text(target), CpuFeatures(target.arch, (), 128), Pipeline.FULL, system=target.system)
    words = set(re.findall(r"[a-z_0-9]+", text.lower()))
    assert ({"ldmxcsr", "stmxcsr", "pause"} if target.arch == X86_64 else {"fpcr", "yield"}) <= words
    assert ("syscall" in words) == (target.system == "linux")
    assert ("usleep" in words) == (target.system == "darwin")


@pytest.mark.parametrize("target", [Target("riscv64", "linux"), Target(X86_64, "win32")])
def test_other_machines_are_refused(target: Target) -> None:
    with pytest.raises(UnsupportedFeature, match=f"native code on {target.arch} {target.system}"):
        runtime_text(target)


def test_the_records_do_not_overlap() -> None:
    """Every field begins on a multiple of its size, and ends before the next one."""
    for prefix, size in (("JOB_", layout.JOB_BYTES), ("TEAM_", layout.TEAM_BYTES), ("POOL_", layout.POOL_BYTES)):
        halves = re.findall(
            rf"^({prefix}\w+): Final = \d+  # i32", Path(layout.__file__).read_text(encoding="utf-8"), re.M
        )
        fields = sorted(
            (value, 4 if name in halves else 8)
            for name, value in vars(layout).items()
            if name.startswith(prefix) and name not in (f"{prefix}BYTES", "POOL_TEAMS", "POOL_CONTEXTS")
        )
        assert len(fields) > 10
        assert all(value % width == 0 and value + width <= size for value, width in fields)
        assert all(value + width <= after for (value, width), (after, _) in pairwise(fields))
