"""Bundles: what is built for CUDA devices, which code a device takes, and who may emit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import pytest

import vyre
from support.bundles import TEXT_ONLY, saxpy_bundle, small_bundle
from support.small_programs import saxpy_program
from vyre.adapters.bundles.builder import build_bundle
from vyre.adapters.bundles.files import write_bundle
from vyre.adapters.bundles.manifest import decode, encode
from vyre.adapters.cuda.aot.choice import choose, reasons
from vyre.adapters.cuda.aot.emitters import cuda_emitters
from vyre.adapters.cuda.code_tools import Assembler, assemblers
from vyre.adapters.cuda.drivers import machine_driver
from vyre.adapters.cuda.ptx.module_form import decode_layout
from vyre.adapters.cuda.ptx.options import ALL_ON, EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, probe_facts
from vyre.adapters.kernel_source import KernelSource
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, KernelCompileFailed, TrapError, UnsupportedFeature
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.domain.program_report import InvalidProgram
from vyre.ports.aot import AotRegistry
from vyre.ports.artifact_store import Artifact
from vyre.ports.bundles import AotEmitter, AotTargetId, Build, Bundle, BundledCode, CodeShelf

SAXPY: Final = saxpy_program()
ENTRIES: Final = {"saxpy": SAXPY}


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
    again = build_bundle(saxpy_bundle().entries, ["sm_75", "sm_90"], TEXT_ONLY).bundle
    assert encode(again) == encode(saxpy_bundle())


def test_workgroup_and_constants_become_part_of_the_program() -> None:
    config = DispatchConfig(workgroup=(64, 1, 1), spec={"step": 5})
    bundle = build_bundle({"step": spec_program()}, ["sm_80"], TEXT_ONLY, config).bundle
    program = bundle.entries["step"]
    assert program.workgroup_size == (64, 1, 1) and "step" not in str(vyre.validate(program).errors)
    assert {code.key.workgroup for code in bundle.codes} == {(64, 1, 1)}
    assert {code.name for code in bundle.codes} == {"sm_80.ptx"}
    with vyre.open("reference") as session:
        x = np.arange(4, dtype=np.uint32)
        assert session.dispatch(program, [x])["y"].tolist() == [5, 6, 7, 8]
        assert session.dispatch(spec_program(), [x], spec={"step": 5})["y"].tolist() == [5, 6, 7, 8]


def test_grid_barriers_have_kernels_that_run_at_every_grid_and_one_that_runs_at_once() -> None:
    with ProgramBuilder("phases", workgroup=64) as p:
        a = p.inout("a", u32)
        a[p.global_id()] = a[p.global_id()] + 1
        p.grid_sync()
        a[p.global_id()] = a[p.global_id()] * 2
    codes = build_bundle({"phases": p.build()}, ["sm_75"], TEXT_ONLY).bundle.codes
    kernels = [[k.cooperative for k in decode_layout(code.artifact.metadata).kernels] for code in codes]
    assert sorted(kernels) == [[False, False], [False, False], [True], [True]]


def test_an_invalid_program_and_no_targets_are_refused() -> None:
    with pytest.raises(InvalidProgram):
        build_bundle({"saxpy": replace(SAXPY, workgroup_size=(0, 1, 1))}, ["sm_75"], TEXT_ONLY)
    for targets in ([], ["sm_75", "sm_75"], ["cuda", "sm_75"]):
        with pytest.raises(InvalidConfig):
            build_bundle(ENTRIES, targets, TEXT_ONLY)


# ---------------------------------------------------------------- emitters
def codes_for(target: str, bundle: Bundle | None = None) -> tuple[BundledCode, ...]:
    return tuple(code for code in (bundle or saxpy_bundle()).codes if code.target == target)


def test_a_second_emitter_for_a_target_is_refused() -> None:
    registry = AotRegistry(cuda_emitters(None))
    with pytest.raises(InvalidConfig, match="two emitters for the target `sm_90`"):
        registry.add(AotEmitter(AotTargetId("sm_90"), lambda program, config: Build(codes_for("sm_90"), "")))


def test_a_target_without_emitter_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature, match=r"aot target sm_90a.*cuda, sm_75"):
        build_bundle(ENTRIES, ["sm_90a"], TEXT_ONLY)


def test_an_emitter_of_ones_own_takes_part() -> None:
    registry = AotRegistry(cuda_emitters(None))
    target = AotTargetId("sm_90a")

    def emit(program: Program, config: DispatchConfig) -> Build:
        return Build(tuple(specific(code) for code in codes_for("sm_90")), "by hand")

    registry.add(AotEmitter(target, emit))
    assert registry.targets[-1] == target
    bundle = build_bundle(ENTRIES, ["sm_75", target], registry).bundle
    assert {code.name for code in decode(encode(bundle)).bundle.codes} == {"sm_75.ptx", "sm_90a.ptx"}


def specific(code: BundledCode) -> BundledCode:
    """The same text for ``sm_90a``."""
    text, layout = (data.replace(b"sm_90", b"sm_90a") for data in (code.artifact.code, code.artifact.metadata))
    return BundledCode(AotTargetId("sm_90a"), replace(code.key, target="sm_90a"), Artifact(layout, text))


def test_what_an_emitter_raises_is_a_typed_error() -> None:
    def fails(program: Program, config: DispatchConfig) -> Build:
        raise RuntimeError("no licence")

    registry = AotRegistry()
    registry.add(AotEmitter(AotTargetId("sm_1"), fails))
    registry.add(AotEmitter(AotTargetId("sm_2"), lambda program, config: Build(codes_for("sm_75"), "")))
    registry.add(AotEmitter(AotTargetId("sm_3"), lambda program, config: Build((), "")))
    for target, problem in (("sm_2", "sm_75"), ("sm_3", "nothing")):
        with pytest.raises(KernelCompileFailed, match=f"its emitter built for {problem}"):
            build_bundle(ENTRIES, [target], registry)
    with pytest.raises(KernelCompileFailed, match=r"backend `sm_1` could not compile.*no licence"):
        build_bundle(ENTRIES, ["sm_1"], registry)


def test_a_refusal_of_the_assembler_is_a_compile_error(tmp_path: Path) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho 'ptxas fatal: no'\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(KernelCompileFailed, match="ptxas fatal: no"):
        build_bundle(ENTRIES, ["sm_75"], AotRegistry(cuda_emitters(Assembler(tool, (13, 0), "13.0.0"))))


@pytest.mark.skipif(not assemblers(), reason="there is no ptxas")
def test_machine_code_is_the_same_in_every_build() -> None:
    registry = AotRegistry(cuda_emitters(assemblers()[0]))
    first, second = (build_bundle(ENTRIES, ["sm_80"], registry).bundle for _ in range(2))
    assert encode(first) == encode(second)
    assert {code.name for code in first.codes} == {"sm_80.ptx", "sm_80.cubin"}
    assert all(c.artifact.code.startswith(b"\x7fELF") for c in first.codes if c.key.kind is ArtifactKind.CUBIN)


# ---------------------------------------------------------------- choice
def facts(target: int, driver: int = 13_000) -> CudaDeviceFacts:
    made = machine_driver()
    made.init()
    return replace(probe_facts(made, 0), target=target, driver_version=driver, name="GPU")


def marked(name: str, buffer: str = "y") -> Program:
    """A program that no other test compiles."""
    with ProgramBuilder("marked", workgroup=32) as p:
        p.output(buffer, u32, count=1)[0] = u32(crc32(name.encode()))
    return p.build()


def holding(program: Program, *members: str) -> CodeShelf:
    """A loaded bundle with these members: ``sm_90.ptx:8.6``."""
    (general,) = build_bundle({"y": program}, ["sm_75"], TEXT_ONLY).bundle.codes[:1]
    codes = []
    for text in members:
        name, _, version = text.partition(":")
        target, _, kind = name.partition(".")
        key = replace(general.key, target=target, kind=ArtifactKind(kind), tool=version or "12.0")
        text_of = f".version {version or '7.0'}\n".encode()
        codes.append(BundledCode(AotTargetId(target), key, Artifact(general.artifact.metadata, text_of)))
    return CodeShelf(codes)


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
    program = marked(name)
    shelf, options = holding(program, *members), EmitOptions(assume=ARENA_FACTS)
    chosen = choose(KernelSource.of(program), options, facts(target), machine_code=True)
    assert (chosen and chosen.name) == expected
    codes = shelf.of(program.digest)
    refused = [code.name for code in codes if any(reasons(code, facts(target), machine_code=True))]
    assert len(codes) == len(members) and (expected is None) == (len(refused) == len(members))


def test_every_reason_is_told() -> None:
    program = marked("reasons")
    shelf = holding(program, "sm_120.ptx:8.7", "sm_80.cubin", "sm_90.cubin:13.0", "sm_90a.ptx:9.9")
    told = {
        code.name: ", ".join(reasons(code, facts(100, driver=12_080), machine_code=True))
        for code in shelf.of(program.digest)
    }
    assert told == {
        "sm_120.ptx": "it needs sm_120 or higher",
        "sm_80.cubin": "it runs on capability 8.0 and higher minors of 8 only",
        "sm_90.cubin": "it runs on capability 9.0 and higher minors of 9 only, "
        "the driver is older than the toolkit that made it",
        "sm_90a.ptx": "it is specific to sm_90, the driver does not read this version of PTX",
    }


def test_a_driver_without_machine_code_takes_text() -> None:
    program = marked("text")
    shelf = holding(program, "sm_90.ptx", "sm_90.cubin")
    source, options = KernelSource.of(program), EmitOptions(assume=ARENA_FACTS)
    for machine_code, expected in ((True, "sm_90.cubin"), (False, "sm_90.ptx")):
        chosen = choose(source, options, facts(90), machine_code=machine_code)
        assert chosen is not None and chosen.name == expected and chosen in shelf.of(program.digest)


UNSERVED: Final[dict[str, EmitOptions]] = {
    "split kernels": EmitOptions(native_grid_sync=False),
    "a folded grid": EmitOptions(folded=True),
    "a mailbox": EmitOptions(mailbox=True),
    "a table of pointers": EmitOptions(pointer_table=True),
    "another way of dividing": EmitOptions(switches=replace(ALL_ON, constant_division=False)),
    "fewer bytes of parameters": EmitOptions(parameter_limit=1024),
    "memory of which nothing is known": EmitOptions(),
}


@pytest.mark.parametrize("name", UNSERVED)
def test_a_launch_that_needs_other_code_gets_none_of_the_bundle(name: str) -> None:
    program = marked(f"unserved {name}")
    shelf, source, wanted = holding(program, "sm_75.ptx"), KernelSource.of(program), UNSERVED[name]
    assumed = wanted if name.startswith("memory") else replace(wanted, assume=ARENA_FACTS)
    assert choose(source, assumed, facts(90), machine_code=True) is None
    other_name = KernelSource.of(marked(f"unserved {name}", buffer="z"))
    assert other_name.program.digest == program.digest
    for other in (KernelSource.of(program, None, (64, 1, 1)), other_name):
        assert choose(other, EmitOptions(assume=ARENA_FACTS), facts(90), machine_code=True) is None
    assert choose(source, EmitOptions(assume=ARENA_FACTS), facts(90), machine_code=True) in shelf.of(program.digest)


# ---------------------------------------------------------------- running
def loaded(program: Program, folder: Path, **options: object) -> Program:
    path = folder / "kernel.vyrz"
    vyre.build_bundle(program, path, targets=["cuda"], emitters=TEXT_ONLY, **options)  # type: ignore[arg-type]
    return vyre.load_bundle(path)[program.name or ""]


def test_a_launch_under_another_workgroup_is_compiled(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.uint32)
    program = loaded(spec_program(), tmp_path, spec={"step": 9})
    with vyre.open("cuda-machine", cache=False) as session:
        assert session.dispatch(program, [x])["y"].tolist() == [9, 10, 11, 12]
        assert session.metrics()["emits"] == 0
        assert session.dispatch(program, [x], DispatchConfig(workgroup=(8, 1, 1)))["y"].tolist() == [9, 10, 11, 12]
        assert session.metrics()["emits"] == 1
        with pytest.raises(InvalidConfig, match="no specialization constant 'step'"):
            session.dispatch(program, [x], spec={"step": 1})


def test_traps_are_told(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.uint32)
    program = loaded(trapping_program(), tmp_path)
    with vyre.open("cuda-machine", cache=False) as session:
        for _ in range(2):
            with pytest.raises(TrapError) as raised:
                session.dispatch(program, [x])
            assert (raised.value.tag, raised.value.address, raised.value.global_id) == ("seven", 7, (7, 0, 0))
        assert session.dispatch(program, [x[:7]])["y"].tolist() == x[:7].tolist()


def test_the_code_is_loaded_again_on_a_device_that_was_opened_anew(tmp_path: Path) -> None:
    write_bundle(tmp_path / "copy.vyrz", small_bundle())
    program, x = vyre.load_bundle(tmp_path / "copy.vyrz")["copy"], np.arange(4, dtype=np.uint32)
    with vyre.open("cuda-machine", cache=False) as session:
        for _ in range(2):
            assert session.dispatch(program, [x])["y"].tolist() == [0, 1, 2, 3]
            session.recover()
        assert session.metrics()["emits"] == 0
