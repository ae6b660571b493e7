"""Bundles: what is built, which code a device takes, who may emit, and what a loaded one does."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.bundles import TEXT_ONLY, copy_program, cuda_build, decode, saxpy_bundle, small_bundle
from support.small_programs import saxpy_program
from vyre.adapters.bundles.builder import build_bundle
from vyre.adapters.bundles.manifest import encode
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.aot.build import Build, Member, MemberKind
from vyre.adapters.cuda.aot.choice import choose
from vyre.adapters.cuda.aot.emitters import cuda_emitters
from vyre.adapters.cuda.aot.running import BundleRunner
from vyre.adapters.cuda.assembler import Assembler, assemblers
from vyre.adapters.cuda.drivers import machine_driver
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, probe_facts
from vyre.adapters.cuda.seam import JitOptions, LoadedLibrary
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import (
    BackendUnavailable,
    InvalidConfig,
    InvalidInput,
    InvalidResource,
    KernelCompileFailed,
    TrapError,
    UnsupportedFeature,
    UnusableBundle,
)
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.domain.program_report import InvalidProgram
from vyre.domain.specialization import resolve_spec
from vyre.ports.aot import AotRegistry
from vyre.ports.bundles import AotEmitter, AotTargetId, Bundle
from vyre.testing import cuda_machine

SAXPY: Final = saxpy_program()
X: Final = np.arange(6, dtype=np.float32)
Y: Final = np.ones(6, np.float32)


def spec_program() -> Program:
    with ProgramBuilder("step", workgroup=32) as p:
        x, y = p.input("x", u32), p.output("y", u32, like="x")
        y[p.global_id()] = x[p.global_id()] + p.spec("step", u32(2))
    return p.build()


def trapping_program() -> Program:
    with ProgramBuilder("guard", workgroup=32) as p:
        x, y = p.input("x", u32), p.output("y", u32, like="x")
        i = p.global_id()
        with p.if_(x[i] == 7):
            p.trap(i, "seven")
        y[i] = x[i]
    return p.build()


# ---------------------------------------------------------------- forms
@pytest.mark.parametrize("bundle", [small_bundle(), saxpy_bundle()], ids=["small", "saxpy"])
def test_a_bundle_survives_its_file(bundle: Bundle) -> None:
    assert decode(encode(bundle)).bundle == bundle


def test_one_bundle_has_one_file() -> None:
    again = build_bundle(saxpy_program(), ["sm_75", "sm_90"], TEXT_ONLY)
    assert encode(again) == encode(saxpy_bundle())


def test_what_is_built_is_stated() -> None:
    config = DispatchConfig(workgroup=(64, 1, 1), spec=resolve_spec(spec_program(), {"step": 5}))
    bundle = build_bundle(spec_program(), ["sm_80"], TEXT_ONLY, config)
    assert bundle.program == spec_program().digest
    assert bundle.workgroup == cuda_build(bundle).kernels[0].block == (64, 1, 1)
    assert [(c.name, c.dtype, c.bits) for c in bundle.spec] == [("step", "u32", 5)]
    assert bundle.members == ("sm_80.ptx",)


def test_grid_barriers_become_kernels_that_run_at_every_grid() -> None:
    with ProgramBuilder("phases", workgroup=64) as p:
        a = p.inout("a", u32)
        a[p.global_id()] = a[p.global_id()] + 1
        p.grid_sync()
        a[p.global_id()] = a[p.global_id()] * 2
    build = cuda_build(build_bundle(p.build(), ["sm_75"], TEXT_ONLY))
    assert [kernel.cooperative for kernel in build.kernels] == [False, False]


def test_an_invalid_program_and_no_targets_are_refused() -> None:
    with pytest.raises(InvalidProgram):
        build_bundle(replace(SAXPY, workgroup_size=(0, 1, 1)), ["sm_75"], TEXT_ONLY)
    for targets in ([], ["sm_75", "sm_75"]):
        with pytest.raises(InvalidConfig):
            build_bundle(SAXPY, targets, TEXT_ONLY)


# ---------------------------------------------------------------- emitters
def test_a_second_emitter_for_a_target_is_refused() -> None:
    registry = AotRegistry(cuda_emitters(None))
    with pytest.raises(InvalidConfig, match="two emitters for the target `sm_90`"):
        registry.add(AotEmitter(AotTargetId("sm_90"), lambda program, config: saxpy_bundle().builds[0]))


def test_a_target_without_emitter_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature, match=r"aot target sm_90a.*sm_75"):
        build_bundle(SAXPY, ["sm_90a"], TEXT_ONLY)


def test_an_emitter_of_ones_own_takes_part() -> None:
    registry = AotRegistry(cuda_emitters(None))
    target = AotTargetId("sm_90a")
    registry.add(AotEmitter(target, lambda program, config: replace(cuda_build(saxpy_bundle(), 1), target=target)))
    assert registry.targets[-1] == target
    bundle = build_bundle(SAXPY, ["sm_75", target], registry)
    assert decode(encode(bundle)).bundle.members == ("sm_75.ptx", "sm_90a.ptx")


def test_what_an_emitter_raises_is_a_typed_error() -> None:
    def fails(program: Program, config: DispatchConfig) -> Build:
        raise RuntimeError("no licence")

    registry = AotRegistry()
    registry.add(AotEmitter(AotTargetId("sm_1"), fails))
    registry.add(AotEmitter(AotTargetId("sm_2"), lambda program, config: saxpy_bundle().builds[0]))
    with pytest.raises(KernelCompileFailed, match=r"backend `sm_1` could not compile.*no licence"):
        build_bundle(SAXPY, ["sm_1"], registry)
    with pytest.raises(KernelCompileFailed, match="its emitter built for sm_75"):
        build_bundle(SAXPY, ["sm_2"], registry)


def test_a_refusal_of_the_assembler_is_a_compile_error(tmp_path: Path) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho 'ptxas fatal: no'\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(KernelCompileFailed, match="ptxas fatal: no"):
        build_bundle(SAXPY, ["sm_75"], AotRegistry(cuda_emitters(Assembler(tool, (13, 0), "13.0.0"))))


@pytest.mark.skipif(not assemblers(), reason="there is no ptxas")
def test_machine_code_is_the_same_in_every_build() -> None:
    registry = AotRegistry(cuda_emitters(assemblers()[0]))
    first, second = (build_bundle(SAXPY, ["sm_80", "sm_90"], registry) for _ in range(2))
    assert encode(first) == encode(second)
    assert first.members == ("sm_80.ptx", "sm_80.cubin", "sm_90.ptx", "sm_90.cubin")
    assert all(b.codes[1].startswith(b"\x7fELF") for b in first.builds)


# ---------------------------------------------------------------- choice
def facts(target: int, driver: int = 13_000) -> CudaDeviceFacts:
    made = machine_driver()
    made.init()
    return replace(probe_facts(made, 0), target=target, driver_version=driver, name="GPU")


def holding(*members: str) -> Bundle:
    """A bundle of saxpy with these members: ``sm_90.ptx:8.6``."""
    builds: dict[str, tuple[Member, ...]] = {}
    for text in members:
        name, _, version = text.partition(":")
        target, _, kind = name.partition(".")
        major, _, minor = (version or {"ptx": "7.0", "cubin": "12.0"}[kind]).partition(".")
        member = Member(MemberKind(kind), (int(major), int(minor)), b"code")
        builds[target] = (*builds.get(target, ()), member)
    kernels = cuda_build(saxpy_bundle()).kernels
    return replace(saxpy_bundle(), builds=tuple(Build(t, kernels, found) for t, found in builds.items()))


CHOICES: Final[dict[str, tuple[tuple[str, ...], int, str | None]]] = {
    "text of the same capability": (("sm_90.ptx",), 90, "sm_90.ptx"),
    "text of a lower one": (("sm_75.ptx",), 120, "sm_75.ptx"),
    "no text of a higher one": (("sm_90.ptx",), 89, None),
    "the highest text": (("sm_75.ptx", "sm_90.ptx", "sm_80.ptx"), 103, "sm_90.ptx"),
    "machine code before text": (("sm_90.ptx", "sm_90.cubin"), 90, "sm_90.cubin"),
    "machine code before higher text": (("sm_80.cubin", "sm_86.ptx"), 89, "sm_80.cubin"),
    "machine code of a lower minor": (("sm_80.cubin",), 86, "sm_80.cubin"),
    "the highest machine code": (("sm_80.cubin", "sm_86.cubin"), 89, "sm_86.cubin"),
    "no machine code of a higher minor": (("sm_86.cubin",), 80, None),
    "no machine code of another major": (("sm_80.cubin", "sm_100.cubin"), 90, None),
    "text where machine code is of another major": (("sm_80.cubin", "sm_80.ptx"), 90, "sm_80.ptx"),
    "specific text on its own": (("sm_90a.ptx",), 90, "sm_90a.ptx"),
    "no specific text on a higher one": (("sm_90a.ptx",), 100, None),
    "no specific text on a higher minor": (("sm_100a.ptx",), 103, None),
    "no specific machine code on a higher minor": (("sm_100a.cubin",), 103, None),
    "specific text before general text": (("sm_90.ptx", "sm_90a.ptx"), 90, "sm_90a.ptx"),
    "text of a family": (("sm_100f.ptx",), 103, "sm_100f.ptx"),
    "no text of another family": (("sm_100f.ptx",), 120, None),
    "no text that the driver cannot read": (("sm_90.ptx:9.9",), 90, None),
    "older text that it can": (("sm_90.ptx:9.9", "sm_75.ptx:7.0"), 90, "sm_75.ptx"),
    "machine code of the driver's major": (("sm_90.cubin:13.2",), 90, "sm_90.cubin"),
    "no machine code of a later toolkit": (("sm_90.cubin:14.0",), 90, None),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_a_device_takes(name: str) -> None:
    members, target, expected = CHOICES[name]
    bundle = holding(*members)
    if expected is None:
        with pytest.raises(UnusableBundle) as raised:
            choose(bundle, facts(target), machine_code=True)
        assert [member for member, _ in raised.value.refused] == [m.partition(":")[0] for m in members]
        assert all(reason and reason in str(raised.value) for _, reason in raised.value.refused)
    else:
        chosen = choose(bundle, facts(target), machine_code=True)
        assert chosen.build.name_of(chosen.member) == expected


def test_the_refusal_names_every_member_and_why() -> None:
    bundle = holding("sm_120.ptx:8.7", "sm_80.cubin", "sm_90.cubin:13.0", "sm_90a.ptx:9.9")
    with pytest.raises(UnusableBundle) as raised:
        choose(bundle, facts(100, driver=12_080), machine_code=True)
    assert dict(raised.value.refused) == {
        "sm_120.ptx": "it needs sm_120 or higher",
        "sm_80.cubin": "it runs on capability 8.0 and higher minors of 8 only",
        "sm_90.cubin": "it runs on capability 9.0 and higher minors of 9 only, "
        "the driver is older than the toolkit of CUDA 13.0 that made it",
        "sm_90a.ptx": "it is specific to sm_90, the driver does not read PTX 9.9",
    }
    assert "GPU (sm_100, driver of CUDA 12.8)" in str(raised.value)


def test_a_driver_without_machine_code_takes_text() -> None:
    bundle = holding("sm_90.ptx", "sm_90.cubin")
    assert choose(bundle, facts(90), machine_code=False).member.kind is MemberKind.PTX
    with pytest.raises(UnusableBundle, match="runs no machine code"):
        choose(holding("sm_90.cubin"), facts(90), machine_code=False)


NEEDS: Final[dict[str, tuple[dict[str, object], dict[str, object]]]] = {
    "64 lanes in a workgroup": ({}, {"max_threads_per_block": 32}),
    "a workgroup of": ({}, {"max_block": (32, 1, 1)}),
    "100000 bytes of workgroup memory": ({"shared_dynamic": 100_000}, {"shared_per_block_optin": 65_536}),
    "9000 bytes of parameters": ({"parameter_bytes": 9000}, {"driver_version": 12_000}),
    "cooperative launches": ({"cooperative": True}, {"cooperative_launch": False}),
}


@pytest.mark.parametrize("reason", NEEDS)
def test_a_device_that_lacks_what_a_kernel_needs_is_told(reason: str) -> None:
    kernel, device = NEEDS[reason]
    bundle = holding("sm_75.ptx")
    build = cuda_build(bundle)
    changed = replace(build.kernels[0], **kernel)  # type: ignore[arg-type]
    needing = replace(bundle, builds=(replace(build, kernels=(changed,)),))
    with pytest.raises(UnusableBundle, match=reason):
        choose(needing, replace(facts(90), **device), machine_code=True)  # type: ignore[arg-type]


# ---------------------------------------------------------------- running
def written(program: Program, folder: Path, **options: object) -> Path:
    emitters = TEXT_ONLY
    return vyre.build_bundle(program, folder / "kernel.vyrz", emitters=emitters, **options).path  # type: ignore[arg-type]


def test_the_constants_of_the_build_are_in_it(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.uint32)
    with vyre.load_bundle(written(spec_program(), tmp_path, spec={"step": 9}), backend="cuda-machine") as bundle:
        assert bundle([x])["y"].tolist() == [9, 10, 11, 12]
        for config in (DispatchConfig(workgroup=(8, 1, 1)), DispatchConfig(spec=vyre.SpecMap({}))):
            with pytest.raises(InvalidConfig, match="compiled for one"):
                bundle([x], config)


def test_a_loaded_bundle_tells_what_it_is(tmp_path: Path) -> None:
    path = written(SAXPY, tmp_path, targets=("sm_75", "sm_90", "sm_120"))
    with vyre.load_bundle(path, backend="cuda-machine") as bundle:
        assert (bundle.image, bundle.backend, bundle.name) == ("sm_90.ptx", "cuda-machine", "saxpy")
        assert bundle.program == SAXPY.digest.hex()
        assert [b.name for b in bundle.abi_buffers] == ["a", "x", "y"]
        assert repr(bundle) == "<LoadedBundle saxpy sm_90.ptx on cuda-machine>"


def test_wrong_inputs_are_refused_as_a_session_refuses_them(tmp_path: Path) -> None:
    with vyre.load_bundle(written(SAXPY, tmp_path), backend="cuda-machine") as bundle:
        wrong: list[dict[str, Any]] = [
            {"a": 1.0, "x": X},
            {"a": 1.0, "x": X, "y": Y.astype(np.float64)},
            {"a": 1.0, "x": X, "z": Y},
        ]
        for inputs in wrong:
            with pytest.raises(InvalidInput):
                bundle(inputs)
        with pytest.raises(InvalidConfig):
            bundle({"a": 1.0, "x": X, "y": Y}, grid=(1, 1, 1, 1))
        with pytest.raises(InvalidConfig, match="given twice"):
            bundle({"a": 1.0, "x": X, "y": Y}, DispatchConfig(grid=(1, 1, 1)), grid=1)
        assert bundle({"a": 1.0, "x": X, "y": Y}, grid=1)["y"].tolist() == (X + Y).tolist()


def test_traps_are_told(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.uint32)
    with vyre.load_bundle(written(trapping_program(), tmp_path), backend="cuda-machine") as bundle:
        for _ in range(2):
            with pytest.raises(TrapError) as raised:
                bundle([x])
            assert (raised.value.tag, raised.value.address, raised.value.global_id) == ("seven", 7, (7, 0, 0))
        assert bundle([x[:7]])["y"].tolist() == x[:7].tolist()


def test_threads_share_a_bundle(tmp_path: Path) -> None:
    results: list[list[float]] = []
    with vyre.load_bundle(written(SAXPY, tmp_path), backend="cuda-machine") as bundle:

        def run(a: float) -> None:
            results.extend([bundle({"a": a, "x": X, "y": Y})["y"].tolist() for _ in range(5)])

        threads = [threading.Thread(target=run, args=(float(a),)) for a in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == sorted((np.float32(a) * X + Y).tolist() for a in range(4) for _ in range(5))


def test_a_closed_bundle_says_so(tmp_path: Path) -> None:
    bundle = vyre.load_bundle(written(SAXPY, tmp_path), backend="cuda-machine")
    bundle.close()
    bundle.close()
    with pytest.raises(InvalidResource, match="closed"):
        bundle({"a": 1.0, "x": X, "y": Y})


@pytest.mark.skipif(not assemblers(), reason="there is no ptxas")
def test_machine_code_reaches_the_driver_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = build_bundle(SAXPY, ["sm_90"], AotRegistry(cuda_emitters(assemblers()[0])))
    text, machine_code = cuda_build(bundle).members
    driver = machine_driver()
    load, images = driver.library_load, []

    def takes_machine_code(image: bytes, options: JitOptions) -> LoadedLibrary:
        images.append(image)
        return load(text.code + b"\0", options)

    monkeypatch.setattr(driver, "library_load", takes_machine_code)
    runner = BundleRunner(driver, ids.MACHINE, bundle)
    runner.open()
    arena = OutputArena()
    runner.pipeline().dispatch([memoryview(v.tobytes()) for v in (np.float32(2), X, Y)], arena)
    assert b"".join(arena.to_bytes()) == (2 * X + Y).tobytes()
    assert images == [machine_code.code]
    runner.close()


def test_only_cuda_backends_run_bundles(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="`reference` runs no bundles"):
        vyre.load_bundle(written(SAXPY, tmp_path), backend="reference")


def test_nothing_is_left_on_the_device() -> None:
    driver = machine_driver()
    runner = BundleRunner(driver, ids.MACHINE, small_bundle(), machine_code=False)
    runner.open()
    runner.close()
    assert not any(driver.live().values())


def test_the_code_is_loaded_again_on_a_device_that_was_opened_anew() -> None:
    machine = cuda_machine()
    runner = BundleRunner(machine.driver, ids.MACHINE, small_bundle(), machine_code=False)
    runner.open()
    first = runner.module()
    runner.recover()
    with runner.device.calls:
        assert runner.module() is not first
    runner.close()
    assert copy_program().digest == small_bundle().program
