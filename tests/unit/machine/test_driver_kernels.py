"""Loading and launching in the emulated driver: what it refuses, what it copies when, how faults come out."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from driver_contract.ptx import HEADER, LOAD, SHARED, STORE, image, launch_shape
from support.limits import LIMIT_S
from support.machine.driver import Rig, code_of, rig
from support.machine.kernels import POINTER_AND_WORD, TRAP, TWO_POINTERS, block, load_kernel, store
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.fault_plan import FOREVER, FaultPlan, SlowKernel
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.journal import ViolationKind
from vyre.adapters.cuda.machine.presets import H200, PRESETS, T4, TINY, newest_ptx
from vyre.adapters.cuda.seam import CudaCallError, JitOptions, LaunchShape, ParameterBlock, ParameterPlace

MISALIGNED = FaultKind.MISALIGNED
WORD = (7).to_bytes(4, "little")


def _store_rig(**options: Any) -> tuple[Rig, int, int]:
    r = rig(**options)
    return r, load_kernel(r, STORE, "store"), r.device(256)


def test_a_launch_is_one_call_and_runs_in_its_stream() -> None:
    r, kernel, memory = _store_rig()
    launch = store(r, kernel, memory, 7, 64)
    before = r.driver.calls.total()
    launch()
    assert r.driver.calls.total() == before + 1
    assert r.driver.calls["launch"] == 1
    assert r.download(memory, 256) == WORD * 64


def test_parameters_are_copied_at_the_launch() -> None:
    r, kernel, memory = _store_rig()
    parameters = block(POINTER_AND_WORD, memory, 7)
    launch = r.driver.prepare_launch(kernel, launch_shape(), r.stream, parameters)
    launch()
    parameters.pack(memory + 128, 9)
    launch()
    parameters.pack(0, 0)
    assert r.download(memory, 256) == WORD * 32 + (9).to_bytes(4, "little") * 32


def test_parameters_of_a_node_are_copied_when_it_is_added() -> None:
    r, kernel, memory = _store_rig()
    parameters = block(POINTER_AND_WORD, memory, 7)
    graph = r.driver.graph_create()
    node = r.driver.graph_add_kernel(graph, [], kernel, launch_shape(2), parameters)
    parameters.pack(0, 0)
    executable = r.driver.graph_instantiate(graph)
    launch = r.driver.prepare_graph_launch(executable, r.stream)
    launch()
    assert r.download(memory, 256) == WORD * 64
    r.driver.graph_update_kernel(executable, node, kernel, launch_shape(1), block(POINTER_AND_WORD, memory, 9))
    launch()
    assert r.download(memory, 256) == (9).to_bytes(4, "little") * 32 + WORD * 32
    cooperative = launch_shape(cooperative=True)
    update = block(POINTER_AND_WORD, memory, 9)
    assert code_of(lambda: r.driver.graph_update_kernel(executable, node, kernel, cooperative, update)) == 1


LOADS: list[tuple[str, bytes, JitOptions, Result, str]] = [
    ("no NUL", image(STORE)[:-1], JitOptions(), Result.INVALID_PTX, "NUL"),
    ("no PTX", b"hello\0", JitOptions(), Result.INVALID_IMAGE, "neither"),
    ("empty", b"", JitOptions(), Result.INVALID_IMAGE, "neither"),
    ("cubin", b"\x7fELF" + bytes(60), JitOptions(), Result.NO_BINARY_FOR_GPU, "machine code"),
    ("newer PTX", image(header=HEADER.replace("7.8", "9.1")), JitOptions(), Result.UNSUPPORTED_PTX_VERSION, "9.1"),
    ("newer target", image(header=HEADER.replace("75", "100")), JitOptions(), Result.NO_BINARY_FOR_GPU, "sm_100"),
    ("syntax", image(STORE.replace("mad.lo", "mad.low")), JitOptions(), Result.INVALID_PTX, "line"),
    ("not ASCII", image("// é\n"), JitOptions(), Result.INVALID_PTX, "ASCII"),
    ("level", image(STORE), JitOptions(level=5), Result.INVALID_VALUE, "level 5"),
    ("shared", image(SHARED.replace("4096", "49153")), JitOptions(), Result.INVALID_PTX, "shared"),
]


@pytest.mark.parametrize(("data", "options", "code", "why"), [case[1:] for case in LOADS], ids=[c[0] for c in LOADS])
def test_images_that_do_not_load(data: bytes, options: JitOptions, code: Result, why: str) -> None:
    r = rig()
    with pytest.raises(CudaCallError) as failure:
        r.driver.library_load(data, options)
    assert failure.value.code == code
    assert why in failure.value.log
    assert r.driver.live()["library"] == 0


def test_what_a_driver_takes_depends_on_its_version() -> None:
    assert [newest_ptx(version) for version in (11_080, 12_000, 12_060, 12_090, 13_000)] == [78, 80, 85, 88, 90]
    old = rig(driver_version=12_020)
    text = image(STORE, header=HEADER.replace("7.8", "8.3"))
    assert code_of(lambda: old.driver.library_load(text)) == Result.UNSUPPORTED_PTX_VERSION


def test_kernels_and_libraries_have_handles() -> None:
    r = rig()
    d = r.driver
    library = d.library_load(image(STORE, LOAD)).library
    kernel = d.library_kernel(library, "store")
    assert d.library_kernel(library, "store") == kernel
    assert code_of(lambda: d.library_kernel(library, "stor")) == Result.NOT_FOUND
    assert code_of(lambda: d.library_kernel(kernel, "store")) == Result.INVALID_HANDLE
    facts = d.kernel_facts(kernel)
    assert (facts.ptx_version, facts.binary_version, facts.parameters) == (78, 90, ((0, 8), (8, 4)))
    assert d.kernel_facts(d.library_kernel(library, "load")).max_threads == 1
    d.library_unload(library)
    for call in (
        lambda: d.library_unload(library),
        lambda: d.kernel_facts(kernel),
        lambda: d.library_kernel(library, "store"),
        store(r, kernel, r.device(128), 0),
    ):
        assert code_of(call) == Result.INVALID_HANDLE


def _refused(launch: Callable[[Rig], object], **options: Any) -> int:
    r = rig(**options)
    return code_of(lambda: launch(r))


def _launch(r: Rig, given: LaunchShape, body: str = STORE, name: str = "store", allow: int | None = None) -> None:
    kernel = load_kernel(r, body, name)
    if allow is not None:
        r.driver.kernel_allow_dynamic_shared(kernel, allow)
    slots: dict[str, tuple[ParameterPlace, ...]] = {"store": POINTER_AND_WORD, "load": TWO_POINTERS}
    memory = r.upload(bytes(4096))
    values = (memory, memory) if name == "load" else (memory, 0)
    parameters = block(slots[name], *values) if name in slots else ParameterBlock(())
    r.driver.prepare_launch(kernel, given, r.stream, parameters)()
    r.driver.stream_synchronize(r.stream)


SHAPES: list[tuple[str, LaunchShape, int]] = [
    ("no lanes", launch_shape(threads=0), Result.INVALID_VALUE),
    ("no blocks", launch_shape(blocks=0), Result.INVALID_VALUE),
    ("block too large", launch_shape(threads=1056), Result.INVALID_VALUE),
    ("block too large in all", LaunchShape((1, 1, 1), (64, 64, 1)), Result.INVALID_VALUE),
    ("grid too large", LaunchShape((1, 65_536, 1), (1, 1, 1)), Result.INVALID_VALUE),
    ("shared memory not allowed", launch_shape(shared=49_153), Result.INVALID_VALUE),
    ("cooperative too large", launch_shape(blocks=132 * 64 + 1, cooperative=True), Result.COOPERATIVE_LAUNCH_TOO_LARGE),
]


@pytest.mark.parametrize(("given", "code"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES])
def test_launches_that_are_refused(given: LaunchShape, code: int) -> None:
    assert _refused(lambda r: _launch(r, given)) == code


def test_a_required_block_size_is_required() -> None:
    assert _refused(lambda r: _launch(r, launch_shape(threads=32), LOAD, "load")) == Result.INVALID_VALUE
    _launch(rig(), launch_shape(threads=1), LOAD, "load")


def test_dynamic_shared_memory_has_to_be_allowed() -> None:
    most = H200.sm.shared_bytes_per_block - 4096
    _launch(rig(), launch_shape(shared=45_056), SHARED, "shared_user")
    assert _refused(lambda r: _launch(r, launch_shape(shared=45_057), SHARED, "shared_user")) == Result.INVALID_VALUE
    _launch(rig(), launch_shape(shared=most), SHARED, "shared_user", allow=most)
    assert _refused(lambda r: _launch(r, launch_shape(), SHARED, "shared_user", allow=most + 1)) == Result.INVALID_VALUE


def test_a_tiny_device_has_tiny_limits() -> None:
    assert _refused(lambda r: _launch(r, launch_shape(threads=65)), preset=TINY) == Result.INVALID_VALUE
    assert _refused(lambda r: _launch(r, launch_shape(blocks=4097)), preset=TINY) == Result.INVALID_VALUE
    too_large = _refused(lambda r: _launch(r, launch_shape(blocks=9, cooperative=True)), preset=TINY)
    assert too_large == Result.COOPERATIVE_LAUNCH_TOO_LARGE
    _launch(rig(preset=TINY), launch_shape(blocks=8, cooperative=True))


@pytest.mark.parametrize("name", PRESETS)
def test_occupancy_on_every_preset(name: str) -> None:
    preset = PRESETS[name]
    r = rig(preset=preset)
    kernel = load_kernel(r, STORE, "store")
    d = r.driver
    assert d.occupancy(kernel, 32, 0) == min(preset.sm.blocks, preset.sm.warps)
    assert d.occupancy(kernel, preset.max_threads_per_block + 1, 0) == 0
    most = preset.sm.shared_bytes_per_block
    assert d.occupancy(kernel, 32, most) == 1
    assert d.occupancy(kernel, 32, most + 1) == 0
    assert code_of(lambda: d.occupancy(kernel, 0, 0)) == Result.INVALID_VALUE


def test_older_devices_reserve_no_shared_memory() -> None:
    r = rig(preset=T4)
    kernel = load_kernel(r, STORE, "store")
    assert r.driver.occupancy(kernel, 32, 16_384) == 4


def test_a_parameter_block_must_be_laid_out_as_declared() -> None:
    r, kernel, memory = _store_rig()
    launch = r.driver.prepare_launch(kernel, launch_shape(), r.stream, block(TWO_POINTERS, memory, 0))
    assert code_of(launch) == Result.INVALID_VALUE
    assert [v.kind for v in r.driver.violations] == [ViolationKind.PARAMETERS]


def test_an_access_outside_its_allocation_loses_the_context() -> None:
    r, kernel, memory = _store_rig()
    store(r, kernel, memory, 7, 96)()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == Result.ILLEGAL_ADDRESS
    assert code_of(lambda: r.driver.stream_ready(r.stream)) == Result.ILLEGAL_ADDRESS
    (fault,) = r.driver.kernel_faults
    assert (fault.kind, fault.entry, fault.lane, fault.address) == (
        FaultKind.ILLEGAL_ADDRESS,
        "store",
        (64, 0, 0),
        memory + 256,
    )


FAULTS: list[tuple[str, str, Callable[[Rig], tuple[int, int]], Result, FaultKind]] = [
    ("freed", "load", lambda r: (_freed(r), r.device(4096)), Result.ILLEGAL_ADDRESS, FaultKind.USE_AFTER_FREE),
    ("null", "load", lambda r: (0, r.device(4)), Result.ILLEGAL_ADDRESS, FaultKind.ILLEGAL_ADDRESS),
    (
        "misaligned",
        "load",
        lambda r: (r.upload(bytes(8)) + 1, r.device(4)),
        Result.MISALIGNED_ADDRESS,
        FaultKind.MISALIGNED,
    ),
    ("uninitialised", "load", lambda r: (r.device(4), r.device(4)), Result.LAUNCH_FAILED, FaultKind.UNINITIALISED),
]


def _freed(r: Rig) -> int:
    memory = r.upload(bytes(4))
    r.driver.mem_free_async(memory, r.stream)
    return memory


@pytest.mark.parametrize(("name", "make", "code", "kind"), [case[1:] for case in FAULTS], ids=[c[0] for c in FAULTS])
def test_faults_of_kernels(name: str, make: Callable[[Rig], tuple[int, int]], code: Result, kind: FaultKind) -> None:
    r = rig()
    kernel = load_kernel(r, LOAD, name)
    r.driver.prepare_launch(kernel, launch_shape(threads=1), r.stream, block(TWO_POINTERS, *make(r)))()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == code
    assert [fault.kind for fault in r.driver.kernel_faults] == [kind]


def test_a_trap_is_a_failed_launch() -> None:
    r = rig()
    kernel = load_kernel(r, TRAP, "trapping")
    r.driver.prepare_launch(kernel, launch_shape(), r.stream, ParameterBlock(()))()
    assert code_of(lambda: r.driver.context_synchronize()) == Result.LAUNCH_FAILED


def test_unloading_code_that_is_still_to_run_is_a_violation() -> None:
    r, kernel, memory = _store_rig()
    library = r.driver.library_load(image(STORE)).library
    store(r, r.driver.library_kernel(library, "store"), memory, 7)()
    r.driver.library_unload(library)
    assert [v.kind for v in r.driver.violations] == [ViolationKind.UNLOADED]
    assert kernel


@pytest.mark.parametrize("seed", range(6))
def test_kernels_race_too(seed: int) -> None:
    r, kernel, memory = _store_rig(seed=seed)
    other = r.driver.stream_create()
    r.driver.stream_synchronize(r.stream)
    store(r, kernel, memory, 7, 64)()
    store(r, kernel, memory + 128, 9, 32, other)()
    r.driver.context_synchronize()
    (violation,) = r.driver.violations
    assert violation.kind is ViolationKind.RACE


@pytest.mark.parametrize("seed", range(6))
def test_kernels_that_share_no_bytes_do_not(seed: int) -> None:
    r, kernel, memory = _store_rig(seed=seed)
    other = r.driver.stream_create()
    r.driver.stream_synchronize(r.stream)
    store(r, kernel, memory, 7, 32)()
    store(r, kernel, memory + 128, 9, 32, other)()
    r.driver.context_synchronize()
    assert not r.driver.violations


def test_a_slow_kernel_in_virtual_time() -> None:
    busy = 50_000
    r, kernel, memory = _store_rig(faults=FaultPlan(slow=(SlowKernel(virtual_ns=busy),)))
    event = r.driver.event_create()
    store(r, kernel, memory, 7)()
    r.driver.event_record(event, r.stream)
    queries = 0
    while not r.driver.event_ready(event):
        queries += 1
    assert busy / H200.speed.call_ns / 2 < queries < 2 * busy / H200.speed.call_ns
    store(r, kernel, memory, 7)()
    r.driver.stream_synchronize(r.stream)


def test_a_wait_skips_the_virtual_time_of_a_slow_kernel() -> None:
    r, kernel, memory = _store_rig(faults=FaultPlan(slow=(SlowKernel(kernel="store", virtual_ns=10**12),)))
    store(r, kernel, memory, 7)()
    r.driver.stream_synchronize(r.stream)
    assert r.driver.virtual_ns > 10**12


def test_a_slow_kernel_in_real_time() -> None:
    now = 0.0
    r = rig(faults=FaultPlan(slow=(SlowKernel(nth=2, seconds=5.0),)), clock=lambda: now)
    kernel, memory = load_kernel(r, STORE, "store"), r.device(128)
    store(r, kernel, memory, 1)()
    r.driver.stream_synchronize(r.stream)
    store(r, kernel, memory, 7)()
    assert not any(r.driver.stream_ready(r.stream) for _ in range(50))
    now = 4.9
    assert not any(r.driver.stream_ready(r.stream) for _ in range(50))
    now = 5.1
    assert any(r.driver.stream_ready(r.stream) for _ in range(50))


def test_a_hung_kernel_blocks_its_stream_and_whoever_waits_for_it_only() -> None:
    r, kernel, memory = _store_rig(faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    d = r.driver
    other = d.stream_create()
    d.stream_synchronize(r.stream)
    store(r, kernel, memory, 7)()
    waited = threading.Event()

    def wait() -> None:
        d.set_current(r.context)
        d.stream_synchronize(r.stream)
        waited.set()

    thread = threading.Thread(target=wait)
    thread.start()
    target = r.pinned(b"-----")
    for word in (b"alive", b"still"):
        d.copy_to_host(target.address, r.upload(word, other), 5, other)
        d.stream_synchronize(other)
        assert bytes(target.view) == word
    assert not d.stream_ready(r.stream)
    assert not waited.is_set()
    d.end_slow_kernels()
    thread.join(LIMIT_S)
    assert waited.is_set()
    assert r.download(memory, 128) == WORD * 32


def test_losing_the_context_wakes_whoever_waits_in_it() -> None:
    r, kernel, memory = _store_rig(faults=FaultPlan(slow=(SlowKernel(seconds=math.inf),)))
    store(r, kernel, memory, 7)()
    codes: list[int] = []

    def wait() -> None:
        r.driver.set_current(r.context)
        codes.append(code_of(lambda: r.driver.stream_synchronize(r.stream)))

    thread = threading.Thread(target=wait)
    thread.start()
    r.driver.primary_release(0)
    thread.join(LIMIT_S)
    assert codes == [Result.CONTEXT_IS_DESTROYED]
