"""Code out of a store: found, made, stored, and done without where that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from vyre import ProgramBuilder, u32
from vyre.adapters.cuda import code_tools, ids
from vyre.adapters.cuda.code_tools import AssemblyFailed, CodeTool
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.seam import DEFAULT_JIT, CudaCallError, JitOptions, LoadedLibrary
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.ir.program import Program
from vyre.domain.specialization import resolve_spec, spec_literals
from vyre.gallery.registry import examples
from vyre.ports.artifact_store import Artifact
from vyre.ports.backend import Backend, BackendServices
from vyre.ports.execution import CacheOutcome, CompileResult
from vyre.ports.requests import DispatchRequest
from vyre.testing.fakes import MemoryArtifactStore
from vyre.testing.recording_telemetry import RecordingTelemetry

MAGIC = b"\x7fELF"
MARK = b"text of the machine code:"
INPUT = memoryview(bytes(16))


class Machine(MachineDriver):
    """Loads what ``Tool`` and ``RealTool`` make, unless it ``refuses`` to."""

    refuses = False

    def library_load(self, image: bytes, options: JitOptions = DEFAULT_JIT) -> LoadedLibrary:
        if image.startswith(MAGIC):
            if self.refuses:
                raise CudaCallError(Result.NO_BINARY_FOR_GPU, "cuLibraryLoadData", "no binary for this device")
            image = image.rpartition(MARK)[2] + b"\0"
        return super().library_load(image, options)


@dataclass
class Tool:
    """Machine code that is the text behind a mark."""

    version: str = "1.0"
    failing: bool = False
    calls: list[tuple[str, JitOptions]] = field(default_factory=list)

    def named(self, jit: JitOptions, /) -> str:
        return f"tool {self.version}"

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        self.calls.append((target, jit))
        if self.failing:
            raise AssemblyFailed("kernel.ptx, line 3: no")
        return MAGIC + MARK + ptx.encode()


@dataclass(frozen=True)
class RealTool:
    """Machine code by a real tool, followed by the text, which is what a machine can run."""

    tool: CodeTool

    def named(self, jit: JitOptions, /) -> str:
        return self.tool.named(jit)

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        return self.tool.assemble(ptx, target, jit) + MARK + ptx.encode()


class Rig:
    """A backend of a process of its own, over a store that others have used."""

    def __init__(
        self,
        store: MemoryArtifactStore | None,
        tool: CodeTool | None = None,
        *,
        refuses: bool = False,
        jit: JitOptions = DEFAULT_JIT,
    ) -> None:
        driver = Machine()
        driver.refuses = refuses
        self.telemetry = RecordingTelemetry()
        services = BackendServices(artifacts=lambda: store, telemetry=self.telemetry)
        options = CudaOptions(exports=False, jit=jit)
        find_tool: Callable[[], CodeTool | None] | None = None if tool is None else lambda: tool
        self.backend: Backend = make_backend(driver, ids.MACHINE, options, services, find_tool=find_tool)

    def compile(self, program: Program, config: DispatchConfig = DispatchConfig()) -> CompileResult:  # noqa: B008
        assert self.backend.compiler is not None
        return self.backend.compiler.compile(program, config)

    def run(self, program: Program) -> bytes:
        arena = OutputArena()
        self.backend.executor.execute(DispatchRequest(program, (INPUT,)), arena)
        return bytes(arena[0])

    def made(self) -> tuple[int, int]:
        """How often text was emitted, and assembled."""
        assert self.backend.metric_source is not None
        metrics = self.backend.metric_source.metrics()
        return metrics["emits"], metrics["compiles"]


def program(value: int = 7) -> Program:
    with ProgramBuilder("p", workgroup=4) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = p.spec("n", 5) + value
    return p.build()


EXPECTED = b"\x0c\0\0\0" * 4


def names(result: CompileResult) -> list[str]:
    return [name for name, _ in result.phases]


@pytest.mark.parametrize("tool", [None, Tool()], ids=["text", "machine code"])
def test_the_second_process_makes_nothing(tool: Tool | None) -> None:
    store = MemoryArtifactStore()
    first, second = Rig(store, tool), Rig(store, tool)
    made = first.compile(program())
    assert made.cache is CacheOutcome.MISS
    assert made.reason == f"never seen: no ptx of program {program().digest.hex()[:16]} is stored"
    assert first.made() == (1, 0 if tool is None else 1)
    found = second.compile(program())
    assert (found.cache, found.reason) == (CacheOutcome.HIT, "")
    assert names(found) == ["read", "load"]
    assert second.made() == (0, 0)
    assert first.run(program()) == second.run(program()) == EXPECTED


def test_each_step_has_its_time() -> None:
    result = Rig(MemoryArtifactStore(), Tool()).compile(program())
    assert names(result) == ["read", "emit", "store", "assemble", "load"]
    assert all(spent_ns >= 0 for _, spent_ns in result.phases)
    assert names(Rig(None).compile(program())) == ["emit", "load"]


def test_without_a_store_no_tool_is_looked_for() -> None:
    tool = Tool()
    rig = Rig(None, tool)
    result = rig.compile(program())
    assert (result.cache, result.reason) == (CacheOutcome.MISS, "the program is new here")
    assert rig.made() == (1, 0)
    assert tool.calls == []


def test_a_miss_names_the_field_that_changed() -> None:
    store = MemoryArtifactStore()
    base = program()
    Rig(store).compile(base)
    rig = Rig(store)
    other = rig.compile(base, DispatchConfig(spec=resolve_spec(base, {"n": 6})))
    assert other.reason == "changed: spec value n: u32 0x5 -> u32 0x6"
    assert rig.compile(base, DispatchConfig(workgroup=(8, 1, 1))).reason == "changed: workgroup: 4 x 1 x 1 -> 8 x 1 x 1"
    assert [labels for _, labels in rig.telemetry.counts] == [
        (("cause", "changed"), ("fields", fields), ("kind", "ptx")) for fields in ("spec", "workgroup")
    ]


def test_another_tool_assembles_again_what_is_stored_as_text() -> None:
    store = MemoryArtifactStore()
    Rig(store, Tool("1.0")).compile(program())
    rig = Rig(store, Tool("2.0"))
    result = rig.compile(program())
    assert (result.cache, result.reason) == (CacheOutcome.MISS, "changed: tool: tool 1.0 -> tool 2.0")
    assert rig.made() == (0, 1)


def test_the_default_and_the_same_value_given_share_what_is_stored() -> None:
    store = MemoryArtifactStore()
    base = program()
    Rig(store).compile(base)
    assert Rig(store).compile(base, DispatchConfig(spec=resolve_spec(base, {"n": 5}))).cache is CacheOutcome.HIT


def test_options_of_the_driver_go_to_the_tool() -> None:
    tool, jit = Tool(), JitOptions(level=1, max_registers=64)
    Rig(MemoryArtifactStore(), tool, jit=jit).compile(program())
    assert tool.calls == [("sm_90", jit)]


def test_text_that_the_tool_refuses_is_left_to_the_driver() -> None:
    store = MemoryArtifactStore()
    rig = Rig(store, Tool(failing=True))
    assert rig.run(program()) == EXPECTED
    assert [(event.name, event.fields["log"]) for event in rig.telemetry.events] == [
        ("vyre.compile.assembly_failed", "kernel.ptx, line 3: no")
    ]
    assert [key.kind for key in store] == [ArtifactKind.PTX]


def test_a_driver_that_refuses_machine_code_gets_text_and_is_not_asked_again() -> None:
    store = MemoryArtifactStore()
    tool = Tool()
    rig = Rig(store, tool, refuses=True)
    assert rig.run(program()) == rig.run(program()) == EXPECTED
    rig.compile(program(8))
    assert len(tool.calls) == 1
    assert [event.name for event in rig.telemetry.events] == ["vyre.compile.machine_code_refused"]
    assert rig.made() == (2, 1)


@pytest.mark.parametrize("kind", [ArtifactKind.PTX, ArtifactKind.CUBIN])
def test_what_cannot_be_read_is_made_again_and_replaced(kind: ArtifactKind) -> None:
    store = MemoryArtifactStore()
    Rig(store, Tool()).compile(program())
    for key in list(store):
        if key.kind is kind:
            store.put(key, Artifact(b"{}", b"not what belongs here"))
    rig = Rig(store, Tool())
    assert rig.run(program()) == EXPECTED
    assert rig.made() == (0, 1 if kind is ArtifactKind.CUBIN else 0)
    again = Rig(store, Tool())
    assert again.compile(program()).cache is CacheOutcome.HIT


TOOLS: Final = [tool for tool in (code_tools._nvjitlink(), code_tools._ptxas()) if tool is not None]


@pytest.mark.skipif(not TOOLS, reason="neither nvJitLink nor ptxas is installed")
def test_real_tools_assemble_the_gallery_once() -> None:
    store = MemoryArtifactStore()
    configs = [(example.program(), example.case().config) for example in examples().values()]
    real = RealTool(TOOLS[0])
    first, second = Rig(store, real), Rig(store, real)
    for each, config in configs:
        assert first.compile(each, config).cache is CacheOutcome.MISS
    assert first.telemetry.events == []
    emitted, assembled = first.made()
    assert min(emitted, assembled) >= len(configs)
    for each, config in configs:
        assert second.compile(each, config).cache is CacheOutcome.HIT
    assert second.made() == (0, 0)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: str(tool.named(DEFAULT_JIT)))
def test_real_tools_give_machine_code_or_their_log(tool: CodeTool) -> None:
    ptx = emit(program(), EmitOptions(), spec_literals(program(), None)).ptx
    for jit in (DEFAULT_JIT, *(JitOptions(level) for level in range(5)), JitOptions(max_registers=64)):
        assert tool.assemble(ptx, "sm_90", jit).startswith(MAGIC)
    assert len({tool.named(jit) for jit in (DEFAULT_JIT, JitOptions(0), JitOptions(3), JitOptions(3, 64))}) == 4
    with pytest.raises(AssemblyFailed, match="return"):
        tool.assemble(ptx.replace("ret;", "return;"), "sm_90", DEFAULT_JIT)
