"""Faults, each in a process of its own: a typed error, no hang, and the next use works or is refused clearly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from gpu_runs.check.basics import one_store
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, new_driver, session_on
from vyre import (
    DeviceLost,
    DeviceOutOfMemory,
    DispatchTimeout,
    Program,
    ProgramBuilder,
    ResidentArray,
    Session,
    TrapError,
    u32,
)
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.adapters.cuda.seam import CudaDriver, LaunchShape, ParameterBlock, ParameterPlace
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError
from vyre.testing.outcomes import Outcome, Verdict

MIB: Final = 1 << 20
_LANES: Final = 1000
_SHORT_TRIPS: Final = 64
_LONG_S: Final = 0.4
_WILD_ADDRESS: Final = 0x10
_FAULTY: Final = """.version 6.3
.target sm_75
.address_size 64
.visible .entry faulty(.param .u64 p0)
{{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd0, [p0];
    mov.b32 %r0, 7;
    {instruction}
    ret;
}}
"""
WILD_STORE: Final = _FAULTY.format(instruction="st.global.b32 [%rd0], %r0;")
TRAP_INSTRUCTION: Final = _FAULTY.format(instruction="trap;")


def illegal_address(context: Context) -> Iterator[Finding]:
    yield from _kernel_fault(context, WILD_STORE)


def illegal_instruction(context: Context) -> Iterator[Finding]:
    yield from _kernel_fault(context, TRAP_INSTRUCTION)


def trap(context: Context) -> Iterator[Finding]:
    """A program's own trap is an answer, not a fault of the device."""
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        yield _raises("a trap", TrapError, lambda: session.dispatch(trapping(_LANES, 77)), _names_lane(77))
        yield _still_works(session)


def timeout(context: Context) -> Iterator[Finding]:
    options = CudaOptions(close_timeout_s=30.0)
    driver = _machine_with_a_long_kernel() if context.backend == ids.MACHINE else None
    with session_on(backend_with(context.backend, options, driver)) as session:
        if driver is not None:
            trips, seconds = _SHORT_TRIPS, _LONG_S
            session.dispatch(spinning(), {"trips": trips})
        else:
            trips, seconds = _calibrated(session, 0.02 if context.emulated else 1.0)
        yield Fact("long_kernel", {"trips": trips, "seconds": round(seconds, 3)})
        config = DispatchConfig(timeout_s=seconds / 8, label="too-long")
        started = time.monotonic()
        yield _raises(
            "a deadline that passes",
            DispatchTimeout,
            lambda: session.dispatch(spinning(), {"trips": trips}, config),
            lambda error: "" if "too-long" in f"{error} {error.__notes__}" else "it does not name the dispatch",
        )
        yield Fact("returned_after_s", round(time.monotonic() - started, 3))
        yield _still_works(session)


def out_of_memory(context: Context) -> Iterator[Finding]:
    """By a limit on our own pool, so that nobody else on the device goes short."""
    if not has_driver(context.backend):
        yield Outcome("a full pool", Verdict.SKIPPED, f"`{context.backend}` has no pool to limit")
        return
    with session_on(backend_with(context.backend, CudaOptions(pool_bytes=64 * MIB))) as session:
        big = one_store(64 * MIB)  # 256 MiB
        yield _raises("a dispatch beyond the pool's limit", DeviceOutOfMemory, lambda: session.dispatch(big))
        yield _still_works(session)
        held: list[ResidentArray] = []
        try:
            yield _raises(
                "resident memory beyond the limit",
                DeviceOutOfMemory,
                lambda: held.extend(session.resident(8 * MIB) for _ in range(64)),
            )
        finally:
            for array in held:
                array.close()
        yield _still_works(session)


# ---------------------------------------------------------------- programs
def trapping(lanes: int, lane: int) -> Program:
    with ProgramBuilder("trapping", workgroup=128) as p:
        out = p.output("out", u32, lanes)
        i = p.global_id()
        with p.if_(i == lane):
            p.trap(i * 2, "planted")
        with p.if_(i < out.length):
            out[i] = i
    return p.build()


def spinning() -> Program:
    """A loop whose trips depend on each other, so that no compiler can shorten it."""
    with ProgramBuilder("spinning", workgroup=32) as p:
        trips = p.param("trips", u32)
        out = p.output("out", u32, 32)
        h = p.var(p.global_id() + 1)
        with p.for_(0, trips) as k:
            h.assign((h ^ k) * 0x0100_0193)
        out[p.global_id()] = h
    return p.build()


def _machine_with_a_long_kernel() -> CudaDriver:
    """Emulated kernels are over as soon as somebody looks; here the second launch takes its time."""
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.machine.fault_plan import FaultPlan, SlowKernel
    from vyre.adapters.cuda.machine.options import MachineOptions

    return MachineDriver(MachineOptions(faults=FaultPlan(slow=(SlowKernel(nth=2, seconds=_LONG_S),))))


def _calibrated(session: Session, seconds: float) -> tuple[int, float]:
    """Trips of ``spinning`` that take at least ``seconds``, and what they took."""
    trips = _SHORT_TRIPS
    while True:
        started = time.perf_counter()
        session.dispatch(spinning(), {"trips": trips})
        took = time.perf_counter() - started
        if took >= seconds or trips >= 1 << 31:
            return trips, took
        trips *= 2 if took > seconds / 8 else 8


# ---------------------------------------------------------------- judging
def _kernel_fault(context: Context, ptx: str) -> Iterator[Finding]:
    """Fault the context that the backend uses, by a kernel that no program of ours becomes; then use the backend."""
    if not has_driver(context.backend):
        yield Outcome("a faulting kernel", Verdict.SKIPPED, f"`{context.backend}` runs no kernels of the driver")
        return
    driver = new_driver(context.backend)
    backend = backend_with(context.backend, DEFAULT_OPTIONS, driver)
    session = session_on(backend)
    yield _still_works(session, "before the fault")
    driver.set_current(driver.primary_retain(0))
    driver.primary_release(0)  # the backend keeps it alive, and must be able to let it go
    stream = driver.stream_create()
    parameters = ParameterBlock([ParameterPlace(0, 8, "Q")])
    parameters.pack(_WILD_ADDRESS)
    kernel = driver.library_kernel(driver.library_load(ptx.encode() + b"\0").library, "faulty")
    driver.prepare_launch(kernel, LaunchShape((1, 1, 1), (32, 1, 1)), stream, parameters)()

    yield _raises("the first use after the fault", DeviceLost, lambda: _until_it_fails(session))
    yield _raises("every later use", DeviceLost, lambda: session.dispatch(one_store(_LANES)))
    lost = backend.lifecycle.device_lost()
    yield Outcome("device_lost()", Verdict.PASSED if lost else Verdict.FAILED, "" if lost else "says no")
    try:
        backend.lifecycle.recover()
    except DeviceLost as error:  # only a new process helps: a legal answer, and a fact about the driver
        yield Fact("recovered", False)
        yield Outcome("recover()", Verdict.PASSED if "Fix:" in str(error) else Verdict.FAILED, str(error))
    else:
        yield Fact("recovered", True)
        # Programs prepared before the fault belong to the old epoch.
        yield _still_works(session, "after recovery", one_store(_LANES + 1))
    started = time.monotonic()
    session.close()
    took = time.monotonic() - started
    yield Outcome("close()", Verdict.PASSED if took < 10 else Verdict.FAILED, f"took {took:.1f} s")


def _until_it_fails(session: Session) -> None:
    """The faulty kernel runs beside us on a stream of its own: the error shows at once or a little later."""
    for _ in range(1000):
        session.dispatch(one_store(_LANES))
        time.sleep(0.001)


def _still_works(session: Session, when: str = "afterwards", program: Program | None = None) -> Outcome:
    name = f"a dispatch {when}"
    try:
        found = session.dispatch(program or one_store(_LANES))["out"]
    except BackendError as error:
        return Outcome(name, Verdict.FAILED, f"{type(error).__name__}: {error}")
    right = np.array_equal(found, np.arange(found.size, dtype=np.uint32) * 3 + 1)
    return Outcome(name, Verdict.PASSED if right else Verdict.FAILED, "" if right else "its bytes are wrong")


def _raises(
    name: str,
    wanted: type[BackendError],
    work: Callable[[], object],
    inspect: Callable[[BackendError], str] = lambda error: "",
) -> Outcome:
    """``inspect`` says what is wrong with the error, or nothing."""
    try:
        work()
    except wanted as error:
        problem = inspect(error)
        return Outcome(name, Verdict.FAILED if problem else Verdict.PASSED, problem)
    except BackendError as error:
        return Outcome(name, Verdict.FAILED, f"raised {type(error).__name__}, not {wanted.__name__}: {error}")
    return Outcome(name, Verdict.FAILED, f"did not raise {wanted.__name__}")


def _names_lane(lane: int) -> Callable[[BackendError], str]:
    def inspect(error: BackendError) -> str:
        assert isinstance(error, TrapError)
        found = (error.tag, error.address, error.global_id)
        wanted = ("planted", 2 * lane, (lane, 0, 0))
        return "" if found == wanted else f"it says {found}, not {wanted}"

    return inspect
