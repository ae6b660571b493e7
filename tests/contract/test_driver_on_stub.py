"""The real adapter over the stub: which functions it calls in which order, what it packs, what its errors say.

Every test is a program of its own: the bindings resolve the driver library once in a process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.cuda import stub as cuda_stub
from support.cuda.scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)

PROLOGUE: Final = """
import os, sys
from support.cuda.stub import StubControl
from driver_contract.ptx import GUARDED, LOAD, STORE, image, launch_shape, load, parameter_block
from driver_contract.rig import code_of, make_rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.seam import CudaCallError, LaunchShape

def failure(call):
    try:
        call()
    except CudaCallError as error:
        return error
    raise AssertionError("the call did not fail")

stub, rig = StubControl(), make_rig(RealDriver())
driver = rig.driver
stub.take_log()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuda_stub.build(tmp_path_factory.mktemp("cuda_stub"))


def test_start_calls_what_it_must_in_order(library: Path) -> None:
    cuda_stub.run(
        """
from support.cuda.stub import StubControl
from driver_contract.rig import make_rig
from vyre.adapters.cuda.driver import RealDriver
stub = StubControl()
driver = RealDriver()
assert stub.take_names() == [], "making a driver calls nothing"
make_rig(driver)
names = stub.take_names()
assert names[0] == "cuInit", names
assert names[names.index("cuDeviceGet"):] == [
    "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreateWithPriority",
    "cuMemPoolCreate", "cuMemPoolSetAttribute",
], names
""",
        library,
    )


def test_each_operation_calls_its_functions(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
kernel, parameters = load(rig, STORE, "store"), parameter_block("QI", 0, 0)
block, address, event = rig.pinned(bytes(64)), rig.device(64), driver.event_create()
graph = driver.graph_create()
launch = driver.prepare_launch(kernel, launch_shape(), rig.stream, parameters)
stub.take_log()
for call, functions in (
    (lambda: driver.copy_to_device(address, block.address, 64, rig.stream), ["cuMemcpyHtoDAsync"]),
    (lambda: driver.copy_to_host(block.address, address, 64, rig.stream), ["cuMemcpyDtoHAsync"]),
    (lambda: driver.copy_on_device(address, address + 32, 32, rig.stream), ["cuMemcpyDtoDAsync"]),
    (lambda: driver.memset8(address, 0, 64, rig.stream), ["cuMemsetD8Async"]),
    (lambda: driver.event_record(event, rig.stream), ["cuEventRecord"]),
    (lambda: driver.stream_wait_event(rig.stream, event), ["cuStreamWaitEvent"]),
    (lambda: driver.stream_ready(rig.stream), ["cuStreamQuery"]),
    (lambda: driver.stream_synchronize(rig.stream), ["cuStreamSynchronize"]),
    (launch, ["cuLaunchKernelEx"]),
    (lambda: driver.graph_add_memset8(graph, [], address, 1, 64), ["cuCtxGetCurrent", "cuGraphAddMemsetNode"]),
    (lambda: driver.graph_add_kernel(graph, [], kernel, launch_shape(cooperative=True), parameters),
     ["cuGraphAddKernelNode", "cuGraphKernelNodeSetAttribute"]),
    (lambda: driver.mem_free_async(address, rig.stream), ["cuMemFreeAsync"]),
    (lambda: driver.host_device_address(block), ["cuMemHostGetDevicePointer"]),
    (lambda: driver.host_free(block), ["cuMemFreeHost"]),
):
    call()
    assert (names := stub.take_names()) == functions, (functions, names)
""",
        library,
    )


def test_pinned_memory_is_mapped_if_asked_for(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
for mapped in (False, True):
    driver.host_alloc(64, mapped=mapped)
assert stub.take_log() == ["cuMemHostAlloc(64, 1)", "cuMemHostAlloc(64, 3)"]
""",
        library,
    )


def test_streams_do_not_block_and_events_are_made_as_asked(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
driver.stream_create(-2)
for timing in (False, True):
    for blocking in (False, True):
        driver.event_create(timing=timing, blocking=blocking)
assert stub.take_log() == [
    "cuStreamCreateWithPriority(1, -2)", "cuEventCreate(2)", "cuEventCreate(3)", "cuEventCreate(0)", "cuEventCreate(1)",
]
""",
        library,
    )


def test_launch_hands_over_every_byte_of_its_parameters(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
parameters = parameter_block("Q I 16s", 0x1122334455667788, 0x99AABBCC, bytes(range(16)))
kernel = load(rig, GUARDED, "guarded")
shape = LaunchShape((3, 5, 7), (64, 1, 1), 1024)
launch = driver.prepare_launch(kernel, shape, rig.stream, parameters)
stub.take_log()
launch()
parameters.pack(1, 2, bytes([255]) * 16)
launch()
first, second = stub.take_launches()
assert first == {
    "kernel": "guarded", "grid": "3,5,7", "block": "64,1,1", "shared": "1024", "cooperative": "0",
    "parameters": "8877665544332211" "ccbbaa99" "00000000" + bytes(range(16)).hex(),
}, first
assert second["parameters"] == "0100000000000000" "02000000" "00000000" + "ff" * 16, second

cooperative = driver.prepare_launch(kernel, launch_shape(2, 64, cooperative=True), rig.stream, parameters)
cooperative()
assert [launch["cooperative"] for launch in stub.take_launches()] == ["1"]
""",
        library,
    )


def test_many_parameters_are_packed_at_their_places(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
import random, struct
from vyre.adapters.cuda.seam import ParameterBlock, ParameterPlace
choose = random.Random(7)
for _ in range(30):
    formats = [choose.choice("QI") for _ in range(choose.randint(1, 60))]
    types = {"Q": ".u64", "I": ".u32"}
    declared = ", ".join(f".param {types[f]} p{i}" for i, f in enumerate(formats))
    kernel = load(rig, f".visible .entry many({declared})\\n{{ ret; }}\\n", "many")
    facts = driver.kernel_facts(kernel).parameters
    parameters = ParameterBlock([ParameterPlace(*place, f) for place, f in zip(facts, formats, strict=True)])
    values = [choose.getrandbits(8 * size) for _, size in facts]
    parameters.pack(*values)
    driver.prepare_launch(kernel, launch_shape(), rig.stream, parameters)()
    (launched,) = stub.take_launches()
    assert launched["parameters"] == struct.pack("@" + "".join(formats), *values).hex(), (formats, launched)
""",
        library,
    )


def test_graph_launches_the_parameters_of_when_a_node_was_set(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
kernel, parameters, graph = load(rig, STORE, "store"), parameter_block("QI", 1, 1), driver.graph_create()
node = driver.graph_add_kernel(graph, [], kernel, launch_shape(cooperative=True), parameters)
parameters.pack(2, 2)
executable = driver.graph_instantiate(graph)
replay = driver.prepare_graph_launch(executable, rig.stream)
replay()
driver.graph_update_kernel(executable, node, kernel, launch_shape(9, cooperative=True), parameters)
parameters.pack(3, 3)
replay()
launches = [(launch["grid"], launch["cooperative"], launch["parameters"]) for launch in stub.take_launches()]
assert launches == [
    ("1,1,1", "1", "0100000000000000" "01000000"), ("9,1,1", "1", "0200000000000000" "02000000"),
], launches
""",
        library,
    )


def test_code_of_every_failure_comes_through(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
for code in Result:
    if code in (Result.SUCCESS, Result.NOT_READY):
        continue
    stub.fail("cuMemAlloc", code, nth=1)
    error = failure(lambda: driver.mem_alloc(64))
    assert (error.code, error.name) == (code, f"CUDA_ERROR_{code.name}"), error
assert driver.mem_alloc(64)
""",
        library,
    )


def test_result_that_the_bindings_do_not_know_is_an_unknown_error(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
kernel, parameters = load(rig, STORE, "store"), parameter_block("QI", 1, 1)
launch = driver.prepare_launch(kernel, launch_shape(), rig.stream, parameters)
replay = driver.prepare_graph_launch(driver.graph_instantiate(driver.graph_create()), rig.stream)
for function, call in (
    ("cuMemAlloc", lambda: driver.mem_alloc(64)),
    ("cuStreamQuery", lambda: driver.stream_ready(rig.stream)),
    ("cuLaunchKernelEx", launch),
    ("cuGraphLaunch", replay),
):
    stub.fail(function, 4321, nth=1)
    error = failure(call)
    assert (error.code, error.call) == (Result.UNKNOWN, function)
    assert "4321" in error.log
    call()
""",
        library,
    )


def test_failure_names_call_arguments_and_what_the_driver_logged(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
stub.fail("cuMemFreeAsync", Result.INVALID_VALUE, nth=2)
first, second = rig.device(64), rig.device(64)
driver.mem_free_async(first, rig.stream)
error = failure(lambda: driver.mem_free_async(second, rig.stream))
assert error.call == "cuMemFreeAsync"
assert error.arguments == {"address": second, "stream": rig.stream}
assert error.log == "cuMemFreeAsync failed to order", error.log
for part in ("cuMemFreeAsync", "CUDA_ERROR_INVALID_VALUE (1)", str(second), "failed to order"):
    assert part in str(error), error

stub.fail("cuStreamSynchronize", Result.ILLEGAL_ADDRESS, nth=1)
error = failure(lambda: driver.stream_synchronize(rig.stream))
assert error.log == "cuStreamSynchronize failed to order", "the log of the failure before is not told again"
""",
        library,
    )


def test_prepared_launches_report_failures(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
kernel, parameters = load(rig, STORE, "store"), parameter_block("QI", 1, 1)
launch = driver.prepare_launch(kernel, launch_shape(), rig.stream, parameters)
replay = driver.prepare_graph_launch(driver.graph_instantiate(driver.graph_create()), rig.stream)
for function, call in (("cuLaunchKernelEx", launch), ("cuGraphLaunch", replay)):
    stub.fail(function, Result.LAUNCH_FAILED, nth=1)
    error = failure(call)
    assert (error.code, error.call) == (Result.LAUNCH_FAILED, function), error
    assert error.arguments["stream"] == rig.stream
    assert error.log == f"{function} failed to order"
    call()
""",
        library,
    )


def test_driver_log_is_read_on_failure_only(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
kernel, address, block = load(rig, STORE, "store"), rig.device(64), rig.pinned(bytes(64))
for _ in range(10):
    driver.copy_to_device(address, block.address, 64, rig.stream)
    driver.stream_ready(rig.stream)
    driver.kernel_facts(kernel)
assert stub.log_reads == 0
failure(lambda: driver.mem_free(1))
assert stub.log_reads == 1
driver.stream_synchronize(rig.stream)
assert stub.log_reads == 1
""",
        library,
    )


def test_query_of_unfinished_work_is_no_failure(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
event = driver.event_create()
for function, query in (
    ("cuStreamQuery", lambda: driver.stream_ready(rig.stream)),
    ("cuEventQuery", lambda: driver.event_ready(event)),
):
    stub.fail(function, Result.NOT_READY, nth=1)
    stub.fail(function, Result.ILLEGAL_ADDRESS, nth=2)
    assert query() is False
    assert failure(query).code == Result.ILLEGAL_ADDRESS
    stub.fail_nothing()
    assert query() is True
assert stub.log_reads == 2
""",
        library,
    )


def test_compiler_log_is_in_the_error(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
error = failure(lambda: driver.library_load(image(STORE).replace(b"sm_75", b"sm_120")))
assert (error.code, error.call) == (Result.NO_BINARY_FOR_GPU, "cuLibraryLoadData")
assert error.log == "for a newer device"
assert error.arguments["nbytes"] == len(image(STORE)) + 1
""",
        library,
    )


def test_pool_that_cannot_be_set_up_is_destroyed(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
stub.fail("cuMemPoolSetAttribute", Result.INVALID_VALUE, nth=1)
assert code_of(lambda: driver.pool_create(0)) == Result.INVALID_VALUE
assert stub.take_names()[-1] == "cuMemPoolDestroy"
""",
        library,
    )


def test_nothing_is_called_before_init(library: Path) -> None:
    cuda_stub.run(
        """
from support.cuda.stub import StubControl
from driver_contract.rig import code_of
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.driver import RealDriver
stub, driver = StubControl(), RealDriver()
for call in (driver.driver_version, driver.device_count, driver.context_synchronize, lambda: driver.stream_ready(1)):
    assert code_of(call) == Result.NOT_INITIALIZED
assert stub.take_log() == []
""",
        library,
    )


def test_nothing_is_called_in_a_forked_process(library: Path) -> None:
    cuda_stub.run(
        PROLOGUE
        + """
event = driver.event_create()
stub.take_log()
child = os.fork()
if child == 0:
    calls = (
        driver.init, driver.device_count, driver.context_synchronize, lambda: rig.device(64),
        lambda: driver.stream_ready(rig.stream), lambda: driver.event_destroy(event),
        lambda: driver.library_load(image(STORE)),
    )
    refused = all(code_of(call) == Result.NOT_INITIALIZED for call in calls)
    os._exit(0 if refused and stub.take_log() == [] else 1)
assert os.waitpid(child, 0)[1] == 0
assert driver.stream_ready(rig.stream), "the parent goes on"
""",
        library,
    )


def test_nothing_is_called_while_the_interpreter_shuts_down(library: Path, tmp_path: Path) -> None:
    """Objects that die last call through the adapter; what they saw is written to a file."""
    seen = tmp_path / "seen"
    cuda_stub.run(
        PROLOGUE
        + f"""
class Last:
    def __init__(self):
        self.kept = (driver, rig, stub, os, sys, CudaCallError, {str(seen)!r})
    def __del__(self):
        driver, rig, stub, os, sys, error_type, path = self.kept
        stub.take_log()
        codes = []
        for call in (driver.context_synchronize, lambda: driver.stream_ready(rig.stream)):
            try:
                call()
                codes.append(0)
            except error_type as error:
                codes.append(int(error.code))
        answer = f"{{sys.is_finalizing()}} {{codes}} {{stub.take_log()}}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(file, answer.encode())
        os.close(file)
last = Last()
""",
        library,
    )
    assert seen.read_text() == "True [4, 4] []"


def test_missing_library_is_a_typed_error() -> None:
    printed = cuda_stub.run(
        """
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.registration import CUDA
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.errors import BackendUnavailable

try:
    from cuda.pathfinder import load_nvidia_dynamic_lib
    load_nvidia_dynamic_lib("cuda")
except Exception:
    pass
else:
    print("installed")
    raise SystemExit

for _ in range(2):
    try:
        RealDriver().init()
    except CudaCallError as error:
        assert (error.code, error.call) == (Result.NO_DEVICE, "cuInit")
        assert "cannot be loaded" in error.log
    else:
        raise AssertionError("init succeeds without a driver library")
try:
    CUDA.probe()
except BackendUnavailable as error:
    assert error.fix
else:
    raise AssertionError("a backend without a driver is available")
""",
        None,
    )
    if printed.strip() == "installed":
        pytest.skip("this machine has a driver library")


def test_backend_finds_the_device_of_the_stub(library: Path) -> None:
    cuda_stub.run(
        """
from vyre.adapters.cuda.registration import CUDA
profile = CUDA.probe()
assert (profile.compute_units, profile.subgroup_size, profile.max_storage_buffer_bytes) == (132, 32, 150754820096)
""",
        library,
    )


@pytest.mark.parametrize("scenario", sorted(SCENARIOS.keys() - {"looped", "kept", "kept costs"}))  # it runs no kernel
def test_backend_gives_back_all_it_takes(library: Path, scenario: str) -> None:
    """Whole uses of the backend, but for what kernels do: no call fails, and every handle is released."""
    cuda_stub.run(
        f"""
from collections import Counter
from support.cuda.scenarios import RECORDING, SCENARIOS
from support.cuda.stub import StubControl
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.registration import CUDA
from vyre.adapters.cuda.runtime.backend import make_backend

PAIRS = {{
    "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease", "cuStreamCreateWithPriority": "cuStreamDestroy",
    "cuEventCreate": "cuEventDestroy", "cuMemPoolCreate": "cuMemPoolDestroy",
    "cuMemAllocFromPoolAsync": "cuMemFreeAsync", "cuMemHostAlloc": "cuMemFreeHost",
    "cuLibraryLoadData": "cuLibraryUnload", "cuGraphCreate": "cuGraphDestroy",
    "cuGraphInstantiateWithFlags": "cuGraphExecDestroy",
}}
stub, backend = StubControl(), make_backend(RealDriver(), CUDA.id, RECORDING)
SCENARIOS[{scenario!r}][0](backend)
backend.lifecycle.close()
log = stub.take_log()
assert [line for line in log if line[0] == "!"] == []
assert any(line.startswith(" launch ") for line in log)
calls = Counter(line.split("(")[0] for line in log)
assert calls["unlisted"] == 0
for taking, giving_back in PAIRS.items():
    assert calls[taking] == calls[giving_back], (taking, calls[taking], calls[giving_back])
""",
        library,
    )


def test_warm_dispatch_calls_the_driver_in_order_and_no_more(library: Path) -> None:
    cuda_stub.run(
        """
from support.cuda.scenarios import INPUTS, PROGRAM
from support.cuda.stub import StubControl
from vyre.adapters.cuda.registration import CUDA
from vyre.domain.dispatch import OutputArena
from vyre.ports.requests import DispatchRequest

stub, backend = StubControl(), CUDA.make()
arena = OutputArena()
backend.executor.execute(DispatchRequest(PROGRAM, INPUTS), arena)
stub.take_log()
backend.executor.execute(DispatchRequest(PROGRAM, INPUTS), arena)
names = stub.take_names()
backend.lifecycle.close()
order = ["cuMemcpyHtoDAsync", "cuLaunchKernelEx", "cuMemcpyDtoHAsync", "cuEventQuery"]
assert [name for name in names if name in order] == order, names
others = {"cuMemsetD8Async", "cuEventRecord", "cuEventElapsedTime"}
assert set(names) <= {*order, *others}, names
""",
        library,
    )
