"""Code of bundles for processors: the best level that the machine has, never one that it lacks, without a compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

import vyre
from support.bundles import copy_program
from support.small_programs import saxpy_program
from vyre.adapters.cpu.aot.choice import choose, refusals
from vyre.adapters.cpu.aot.levels import LEVELS, levels_of
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.kernel_source import KernelSource
from vyre.domain.errors import BackendUnavailable, MalformedBundle, UnusableBundle
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.ports.artifact_store import Artifact
from vyre.ports.bundles import BundledCode, CodeShelf, bundled_code

X86: Final = levels_of("x86_64")
HERE: Final = [target for target in levels_of(host().arch) if not host().lacks(LEVELS[target])]


def counting_program() -> Program:
    """Workgroups that leave lanes of a vector idle, and atomics."""
    with ProgramBuilder("counted", workgroup=3) as p:
        x, y = p.input("x", u32), p.output("y", u32, count=4)
        y.atomic_add(x[p.global_id()] % 4, u32(1))
    return p.build()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> vyre.LoadedBundle:
    """Two entry points for all levels of both architectures."""
    path = tmp_path_factory.mktemp("levels") / "levels.vyrz"
    entries = {"saxpy": saxpy_program(), "counted": counting_program()}
    vyre.build_bundle(entries, path, targets=list(LEVELS))
    return vyre.load_bundle(path)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which llvmlite is not installed."""

    def missing() -> None:
        raise BackendUnavailable("the package llvmlite is not installed")

    monkeypatch.setattr("vyre.adapters.cpu.native.compilation.llvm_version", lambda: None)
    monkeypatch.setattr("vyre.adapters.cpu.native.compilation._llvm", missing)
    yield


def taken(bundle: vyre.LoadedBundle, features: CpuFeatures, options: EmitOptions | None = None) -> str | None:
    code = choose(KernelSource.of(bundle["saxpy"]), options or EmitOptions(), features)
    return None if code is None else code.target


def test_the_best_level_that_the_processor_has_is_taken(bundle: vyre.LoadedBundle) -> None:
    for target, features in LEVELS.items():
        assert taken(bundle, features) == target
        more = replaced(features, (*features.features, "zz-later"))
        assert taken(bundle, more) == target
    assert taken(bundle, CpuFeatures("riscv64", (), 128)) is None


@pytest.mark.parametrize("target", X86[1:])
def test_no_code_of_a_level_is_taken_of_which_one_feature_is_lacking(bundle: vyre.LoadedBundle, target: str) -> None:
    features, below = LEVELS[X86[X86.index(target)]], X86[: X86.index(target)]
    for lacking in features.features:
        lesser = replaced(features, tuple(name for name in features.features if name != lacking))
        assert taken(bundle, lesser) in below
        assert not any(lesser.lacks(LEVELS[each]) for each in below if each == taken(bundle, lesser))


def replaced(features: CpuFeatures, names: tuple[str, ...]) -> CpuFeatures:
    return features._replace(features=tuple(sorted(names)))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (EmitOptions(counting=True), "it counts no steps"),
        (EmitOptions(wide=True), "it is for buffers of less than 2^31 bytes"),
    ],
)
def test_launches_that_need_other_code_get_none(bundle: vyre.LoadedBundle, options: EmitOptions, reason: str) -> None:
    features = LEVELS[X86[0]]
    assert taken(bundle, features, options) is None
    told = dict(refusals(KernelSource.of(bundle["saxpy"]), options, features))
    assert told["cpu-x86_64.object"] == reason
    assert told["cpu-x86_64-avx2.object"].startswith("it needs avx, avx2, bmi") and told["cpu-aarch64.object"] == (
        f"it needs aarch64, {reason}"
    )


def test_code_for_one_thread_or_one_axis_serves_no_other_launch(bundle: vyre.LoadedBundle) -> None:
    source, features = KernelSource.of(bundle["counted"]), LEVELS[X86[0]]
    for exclusive in (True, False):
        for joined in (True, False):
            code = choose(source, EmitOptions(exclusive=exclusive, joined=joined), features)
            assert code is not None
            policy = dict(code.key.policy)
            assert (policy["exclusive"], policy["joined"]) == (str(exclusive).lower(), str(joined).lower())


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("threads", [1, 4])
def test_each_level_gives_the_same_bytes_without_a_compiler(
    target: str, threads: int, bundle: vyre.LoadedBundle, no_compiler: None
) -> None:
    bits = {"avx2": 256, "avx512": 512}.get(target.rpartition("-")[2], 128)
    catalog = cpu_catalog(CpuOptions(vector_bits=bits, threads=threads))
    x = np.arange(5000, dtype=np.uint32)
    with vyre.open("cpu", catalog=catalog, cache=False) as session:
        floats, ones = x.astype(np.float32), np.ones(5000, np.float32)
        y = session.dispatch(bundle["saxpy"], {"a": 2.0, "x": floats, "y": ones})["y"]
        assert np.array_equal(y, 2 * floats + 1)
        rows = np.bincount(np.append(x, 0) % 4)  # the last lane reads behind the end
        for grid, expected in ((1667, rows), ((1667, 1, 1), rows), ((1, 1667), [1667, 1667, 1667, 0])):
            found = session.dispatch(bundle["counted"], {"x": x}, grid=grid)["y"]
            assert found.tolist() == list(expected)
        assert (session.metrics()["compiles"], session.metrics()["emits"]) == (0, 0)


def test_without_a_compiler_a_program_without_fitting_code_is_refused_with_all_reasons(
    bundle: vyre.LoadedBundle, no_compiler: None
) -> None:
    with vyre.open("cpu", cache=False) as session:
        with pytest.raises(UnusableBundle, match=r"cpu-aarch64\.object|cpu-x86_64\.object: .*it counts no steps"):
            session.dispatch(bundle["counted"], {"x": np.zeros(3, np.uint32)}, vyre.DispatchConfig(step_budget=9))
        with pytest.raises(UnusableBundle, match="it is for a workgroup of"):
            session.dispatch(bundle["counted"], {"x": np.zeros(3, np.uint32)}, vyre.DispatchConfig(workgroup=(5, 1, 1)))
        with pytest.raises(BackendUnavailable, match="llvmlite"):
            session.dispatch(copy_program(), [np.zeros(3, np.uint32)])


def test_a_layout_that_this_version_does_not_read_is_refused_by_name(bundle: vyre.LoadedBundle) -> None:
    program = bundle["saxpy"].from_wire(replace(bundle["saxpy"], workgroup_size=(16, 1, 1)).to_wire())
    newer = [
        BundledCode(
            code.target,
            replace(code.key, program=program.digest, workgroup=(16, 1, 1)),
            Artifact(b"vyre-object/9" + code.artifact.metadata[13:], code.artifact.code),
        )
        for code in bundled_code(bundle["saxpy"].digest)
    ]
    shelf = CodeShelf(newer)
    with vyre.open("cpu", cache=False) as session, pytest.raises(MalformedBundle, match=r"object is refused: .*format"):
        session.compile(program)
    assert shelf.of(program.digest)
