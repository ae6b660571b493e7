"""What ``vyre doctor`` says about the processor, its threads and the compiler."""

from __future__ import annotations

import pytest

from vyre.adapters.cpu.native import compilation
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.server import shared_server
from vyre.adapters.cpu.pool import options as pool_options
from vyre.adapters.cpu.pool.options import usable_cpus
from vyre.adapters.cpu.runtime import probe
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.probe import facts_of
from vyre.domain.errors import BackendUnavailable

NOTHING: dict[str, str] = {}


def threads(options: CpuOptions, variables: dict[str, str] | None = None) -> str:
    return facts_of(options, variables or {})["threads"]


def test_features_lanes_and_the_compiler_are_named() -> None:
    found = facts_of(CpuOptions(), NOTHING)
    assert set(found["instruction sets"].split(", ")) == set(host().features)
    lanes = min(max(host().vector_bits // 32, 4), 16)
    assert found["lanes"].startswith(f"{lanes} in a vector: ") and found["lanes"].endswith("; some programs take 32")
    version = compilation.llvm_version()
    assert version is not None
    assert found["compiler"] == f"LLVM {compilation.loaded_version()} of {version}"
    assert compilation.loaded_version().split(".")[0].isdigit()


def test_the_origin_of_the_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus, first = len(usable_cpus()), min(usable_cpus())
    monkeypatch.setattr(probe, "cpu_quota", lambda: None)
    monkeypatch.setattr(pool_options, "cpu_quota", lambda: None)
    assert threads(CpuOptions()) == f"{cpus}, the number of usable CPUs; no quota of control groups is set"
    assert threads(CpuOptions(threads=3)) == "3, as the option says"
    assert threads(CpuOptions(threads=3), {"VYRE_CPU_THREADS": "3"}) == "3, as VYRE_CPU_THREADS says"
    only = CpuOptions(affinity=frozenset({first}))
    assert threads(only, {"VYRE_CPU_AFFINITY": str(first)}).startswith("1, the number of CPUs in VYRE_CPU_AFFINITY; ")
    assert facts_of(only, NOTHING)["CPUs"] == f"{first}, as the option says"
    assert facts_of(CpuOptions(), NOTHING)["CPUs"].endswith("those that the process may use")


def test_a_quota_that_sets_the_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (probe, pool_options):
        monkeypatch.setattr(module, "usable_cpus", lambda: frozenset(range(8)))
        monkeypatch.setattr(module, "cpu_quota", lambda: 3)
    assert threads(CpuOptions()) == "3, the quota of control groups; the number of usable CPUs is 8"
    monkeypatch.setattr(probe, "cpu_quota", lambda: 9)
    monkeypatch.setattr(pool_options, "cpu_quota", lambda: 9)
    assert threads(CpuOptions()) == "8, the number of usable CPUs; the quota of control groups is 9"


def test_a_missing_compiler_comes_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "llvm_version", lambda: None)
    assert facts_of(CpuOptions(), NOTHING)["compiler"] == probe.NO_COMPILER
    assert 'pip install "vyre[cpu]"' in probe.NO_COMPILER


def test_a_compiler_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise BackendUnavailable("it does not load (an old C library)", fix="install it anew.")

    monkeypatch.setattr(probe, "loaded_version", broken)
    assert facts_of(CpuOptions(), NOTHING)["compiler"].endswith(
        "does not load (an old C library). Fix: install it anew."
    )


def test_the_compile_server_is_told_whether_it_runs() -> None:
    number = shared_server().process_id
    wanted = "none runs; " if number is None else f"process {number}"
    assert facts_of(CpuOptions(), NOTHING)["compile server"].startswith(wanted)
