"""Code of the native CPU backend comes from the store where it can, and the reason of every miss is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu.backends import ADD, CountedTools, backend_of
from vyre.adapters.cpu.llvm.captures import Capture
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.cpu.runtime.code import CodeMaker
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.stored_form import FORMAT, CodeLayout, KernelLayout, decode_layout, encode_layout
from vyre.adapters.cpu.runtime.tools import Tools
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.dispatch import DEFAULT_CONFIG, OutputArena
from vyre.domain.errors import BackendUnavailable, MalformedWire
from vyre.domain.ir.program import Program
from vyre.ports.artifact_store import Artifact
from vyre.ports.backend import Backend, BackendServices
from vyre.ports.execution import CacheOutcome, CompileResult
from vyre.testing.backend_contract.bench import words
from vyre.testing.fakes import MemoryArtifactStore
from vyre.testing.recording_telemetry import RecordingTelemetry


def compiled(backend: Backend) -> CompileResult:
    assert backend.compiler is not None
    return backend.compiler.compile(ADD, DEFAULT_CONFIG)


def answer(backend: Backend) -> tuple[bytes, ...]:
    arena = OutputArena()
    compiled(backend).pipeline.dispatch((memoryview(words(1, 2, 3)),), arena)
    return arena.to_bytes()


@pytest.fixture(scope="module", autouse=True)
def runtime() -> None:
    """Compiles the runtime of the worker threads, which all backends of the process share."""
    with backend_of(CountedTools().tools) as backend:
        backend.lifecycle.prepare()


WANTED: Final = (words(2, 3, 4),)


def kernels(store: MemoryArtifactStore) -> list[ArtifactKey]:
    return [key for key in store if key.program == ADD.digest]


def effort_of(store: MemoryArtifactStore, key: ArtifactKey) -> Effort:
    found = store.get(key)
    assert found is not None
    return decode_layout(found.metadata).effort


def test_the_second_backend_finds_what_the_first_one_stored() -> None:
    store, first, second = MemoryArtifactStore(), CountedTools(), CountedTools()
    with backend_of(first.tools, store) as backend:
        found = compiled(backend)
        assert (found.cache, first.emitted, first.compiled) == (CacheOutcome.MISS, 1, 1)
        assert found.reason.startswith("never seen")
        assert {name for name, _ in found.phases} == {"read", "emit", "compile", "store", "load"}
        assert answer(backend) == WANTED
    with backend_of(second.tools, store) as backend:
        found = compiled(backend)
        assert (found.cache, second.emitted, second.compiled) == (CacheOutcome.HIT, 0, 0)
        assert {name for name, _ in found.phases} == {"read", "load"}
        assert answer(backend) == WANTED


def test_rounds_beyond_all_counting_are_stored_like_others() -> None:
    most = f"0u64 .. 0x{2**64 - 1:x}u64 step 1u64"
    program = Program.from_text(f"""
        workgroup_size 64, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {{
          for j in {most} {{ for k in {most} {{ break }} y[gid.x] = x[gid.x] + 1u break }}
        }}
    """)
    store = MemoryArtifactStore()
    for wanted in (CacheOutcome.MISS, CacheOutcome.HIT):
        with backend_of(CountedTools().tools, store) as backend:
            assert backend.compiler is not None
            found, arena = backend.compiler.compile(program, DEFAULT_CONFIG), OutputArena()
            assert found.cache is wanted
            found.pipeline.dispatch((memoryview(words(1, 2, 3)), memoryview(words(0, 0, 0))), arena)
            assert arena.to_bytes() == WANTED


def long_program(ifs: int) -> Program:
    """Adds 1 once for each of so many conditions, all of which hold for the elements of the test."""
    lines = "\n".join(f"if v < {900 + i}u {{ y[gid.x] = y[gid.x] + 1u }}" for i in range(ifs))
    return Program.from_text(f"""
        workgroup_size 64, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {{
          let v = x[gid.x]
          {lines}
        }}
    """)


@pytest.mark.parametrize(("ifs", "wanted"), [(2, Effort.LIGHT), (700, Effort.QUICK)])
def test_a_long_text_is_compiled_by_the_quick_pipeline_and_stored_as_such(ifs: int, wanted: Effort) -> None:
    program, store, used = long_program(ifs), MemoryArtifactStore(), []

    def noted(tools: Tools) -> Tools:
        def compile_noted(text: str, features: CpuFeatures, pipeline: Effort) -> bytes:
            used.append((text.count("define void @vyre_kernel"), pipeline))
            return tools.compile(text, features, pipeline)

        return replace(tools, compile=compile_noted)

    inputs = (memoryview(words(1, 2, 3)), memoryview(words(0, 1, 2)))
    for outcome in (CacheOutcome.MISS, CacheOutcome.HIT):
        with backend_of(noted(CountedTools().tools), store) as backend:
            assert backend.compiler is not None
            found = backend.compiler.compile(program, DEFAULT_CONFIG)
            arena = OutputArena()
            found.pipeline.dispatch(inputs, arena)
            assert (found.cache, arena.to_bytes()) == (outcome, (words(ifs, ifs + 1, ifs + 2),))
    assert [pipeline for kernels, pipeline in used if kernels] == [wanted]
    (key,) = [key for key in store if key.program == program.digest]
    assert effort_of(store, key) is wanted


def test_the_code_of_the_full_pipeline_takes_the_place_of_what_was_stored() -> None:
    store, tools = MemoryArtifactStore(), CountedTools()
    source, options = KernelSource.of(ADD), EmitOptions(lanes=4, predicated=False)
    found = []
    for ask_full in (False, True, False):
        services = BackendServices(artifacts=lambda: store, telemetry=RecordingTelemetry())
        counters = Counters()
        maker = CodeMaker(tools.tools, services, counters)
        code = maker.full(source, options) if ask_full else maker.code(source, options, Steps(counters.now_ns))
        (key,) = kernels(store)
        found.append((code.layout.effort, effort_of(store, key), counters.stored_loads))
    assert found == [
        (Effort.LIGHT, Effort.LIGHT, 0),
        (Effort.FULL, Effort.FULL, 0),
        (Effort.FULL, Effort.FULL, 1),
    ]
    assert (tools.emitted, tools.compiled, tools.compiled_apart) == (2, 1, 1)


def test_without_a_store_everything_is_compiled() -> None:
    for _ in range(2):
        tools = CountedTools()
        with backend_of(tools.tools) as backend:
            assert answer(backend) == WANTED
        assert tools.emitted == 1


def test_stored_code_runs_without_a_compiler_whatever_its_version_was() -> None:
    store = MemoryArtifactStore()
    with backend_of(CountedTools("llvmlite 0.44").tools, store) as backend:
        assert answer(backend) == WANTED
    tools = CountedTools(None)
    with backend_of(tools.tools, store) as backend:
        backend.lifecycle.prepare()
        assert answer(backend) == WANTED
    assert (tools.emitted, tools.compiled) == (0, 0)


def test_without_a_compiler_what_is_not_stored_is_refused_with_what_to_install() -> None:
    with (
        backend_of(CountedTools(None).tools, MemoryArtifactStore()) as backend,
        pytest.raises(BackendUnavailable, match=r"pip install .vyre\[cpu\]"),
    ):
        compiled(backend)


def test_another_version_of_the_compiler_compiles_again() -> None:
    store = MemoryArtifactStore()
    with backend_of(CountedTools("llvmlite 0.44").tools, store) as backend:
        compiled(backend)
    with backend_of(CountedTools("llvmlite 0.50").tools, store) as backend:
        found = compiled(backend)
    assert found.cache is CacheOutcome.MISS
    assert "llvmlite 0.44 -> llvmlite 0.50" in found.reason


def test_a_store_moved_to_a_lesser_processor_misses_and_names_the_feature() -> None:
    store = MemoryArtifactStore()
    full = CountedTools()
    richer = full.tools.features._replace(features=(*full.tools.features.features, "zz-made-up"))
    with backend_of(replace(full.tools, features=richer), store) as backend:
        assert answer(backend) == WANTED
    lesser = CountedTools()
    with backend_of(lesser.tools, store) as backend:
        found = compiled(backend)
        assert answer(backend) == WANTED
    assert (found.cache, lesser.compiled) == (CacheOutcome.MISS, 1)
    assert "device zz-made-up: yes -> -" in found.reason


def test_without_a_compiler_code_of_a_richer_processor_does_not_serve() -> None:
    store = MemoryArtifactStore()
    full = CountedTools()
    richer: CpuFeatures = full.tools.features._replace(features=(*full.tools.features.features, "zz-made-up"))
    with backend_of(replace(full.tools, features=richer), store) as backend:
        compiled(backend)
    with backend_of(CountedTools(None).tools, store) as backend, pytest.raises(BackendUnavailable):
        compiled(backend)


def test_the_key_says_everything_that_decides_the_code() -> None:
    store, tools = MemoryArtifactStore(), CountedTools()
    with backend_of(tools.tools, store, lanes=8) as backend:
        compiled(backend)
    (key,) = kernels(store)
    assert (key.kind, key.target) == (ArtifactKind.OBJECT, tools.tools.features.arch)
    assert key.tool == "llvmlite of the tests"
    assert [name for name, _ in key.device] == sorted(tools.tools.features.features)
    assert dict(key.policy).items() >= {"lanes": "8", "counting": "false"}.items()
    assert effort_of(store, key) is Effort.LIGHT
    assert len(key.emitter) == 32
    assert key.workgroup == (4, 1, 1)


@pytest.mark.parametrize(
    "spoiled",
    [
        Artifact(b"{}", b"x"),
        Artifact(encode_layout(CodeLayout(16, Effort.LIGHT, (KernelLayout("k", 0, (), None),))), b"no object"),
    ],
    ids=["layout", "object"],
)
def test_unusable_content_is_compiled_again_and_replaced(spoiled: Artifact) -> None:
    store = MemoryArtifactStore()
    with backend_of(CountedTools().tools, store) as backend:
        compiled(backend)
    (key,) = kernels(store)
    store.put(key, spoiled)
    tools = CountedTools()
    with backend_of(tools.tools, store) as backend:
        assert answer(backend) == WANTED
    assert tools.compiled == 1
    again = CountedTools()
    with backend_of(again.tools, store) as backend:
        assert answer(backend) == WANTED
    assert again.compiled == 0


LAYOUT: Final = CodeLayout(8, Effort.FULL, (KernelLayout("a", 64, ("größer", ""), 7), KernelLayout("b", 0, (), None)))
CAPTURING: Final = CodeLayout(8, Effort.QUICK, (KernelLayout("a", 64, (), 7, (Capture(9, (2,), 5),)),))


def laid_out(kernel: KernelLayout) -> bytes:
    return encode_layout(CodeLayout(8, Effort.LIGHT, (kernel,)))


def changed(at: int, value: int) -> bytes:
    """Returns the bytes of a layout with one of them, of its head, replaced."""
    data = bytearray(encode_layout(LAYOUT))
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize("layout", [LAYOUT, CAPTURING])
def test_a_layout_survives_its_written_form(layout: CodeLayout) -> None:
    assert decode_layout(encode_layout(layout)) == layout


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff" * 200,
        encode_layout(LAYOUT) + b" ",
        changed(len(FORMAT) - 1, ord("2")),
        changed(len(FORMAT), len(Effort)),
        changed(len(FORMAT) + 1, 0),
        changed(len(FORMAT) + 1, 65),
        changed(len(FORMAT) + 3, 1),
        changed(len(FORMAT) + 3, 0),
        encode_layout(CodeLayout(8, Effort.LIGHT, ())),
        encode_layout(LAYOUT).replace("größer".encode(), b"gr\xff\xfffer\xff"),
        laid_out(KernelLayout("", 0, (), None)),
        laid_out(KernelLayout("a", 1 << 49, (), None)),
        laid_out(KernelLayout("a", 0, (), None, (Capture(9, (), None),))),
        laid_out(KernelLayout("a", 0, (), None, (Capture(9, (1 << 49,), None),))),
        laid_out(KernelLayout("a", 0, (), None, (Capture(1 << 49, (2,), None),))),
    ],
)
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedWire, match="layout of an object"):
        decode_layout(data)


@pytest.mark.parametrize("layout", [LAYOUT, CAPTURING])
def test_a_layout_cut_short_is_refused(layout: CodeLayout) -> None:
    data = encode_layout(layout)
    for end in range(len(data)):
        with pytest.raises(MalformedWire, match="layout of an object"):
            decode_layout(data[:end])


@given(st.integers(0, 200), st.integers(0, 255), st.sampled_from((LAYOUT, CAPTURING)))
def test_a_changed_layout_is_refused_or_is_the_form_of_what_it_says(at: int, value: int, layout: CodeLayout) -> None:
    data = bytearray(encode_layout(layout))
    data[at % len(data)] = value
    try:
        found = decode_layout(bytes(data))
    except MalformedWire:
        return
    assert encode_layout(found) == data
