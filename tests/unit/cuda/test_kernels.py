"""The cache of loaded modules."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from support.limits import LIMIT_S
from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import DriverCall, Fault, FaultPlan
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption, EmittedModule
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.cuda.runtime.code import CodeMaker, Emitter
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.kernels import KernelCache
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, WaitingClock
from vyre.adapters.kernel_source import KernelSource
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import DispatchFailed, KernelCompileFailed, UnsupportedFeature
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import BackendId, Program
from vyre.policies.caching.cost_eviction import EvictionInputs
from vyre.policies.journal import DecisionSink
from vyre.ports.backend import NO_SERVICES, BackendServices


class Rig(NamedTuple):
    device: CudaDevice
    driver: MachineDriver
    cache: KernelCache


def rig(
    emitter: Emitter = emit,
    *,
    limit: int = 100,
    services: BackendServices = NO_SERVICES,
    clock: WaitingClock = SYSTEM_CLOCK,
) -> Rig:
    driver = MachineDriver()
    device = CudaDevice(driver, backend=BackendId("cuda-machine"), clock=clock)
    device.enter()
    return Rig(device, driver, KernelCache(device, CodeMaker(device, emitter, services), limit=limit))


def program(value: int = 1, name: str = "y") -> Program:
    with ProgramBuilder("p", workgroup=32) as p:
        y = p.inout(name, u32)
        y[p.global_id()] = p.spec("n", 5) + value
    return p.build()


def test_a_module_is_loaded_once_and_stays_while_the_device_is_open() -> None:
    r = rig()
    first = r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    assert r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS) is first
    assert first.kernels[0].facts.parameters == tuple((p.offset, p.size) for p in first.kernels[0].emitted.parameters)
    assert r.driver.calls["library_load"] == 1
    r.device.close()
    assert not any(r.driver.live().values())


def test_programs_that_differ_in_the_numbers_of_bindings_have_modules_of_their_own() -> None:
    r = rig()
    base = program()
    moved = replace(base, buffers=tuple(replace(b, binding=b.binding + 5) for b in base.buffers))
    assert moved.digest == base.digest
    for each in (base, moved):
        (kernel,) = r.cache.get(KernelSource.of(each), DEFAULT_OPTIONS).kernels
        assert kernel.emitted.parameters[0].binding == each.buffers[0].binding


def test_everything_that_decides_the_code_is_in_the_key() -> None:
    r = rig()
    base = program()
    variants: list[tuple[KernelSource, EmitOptions]] = [
        (KernelSource.of(base), DEFAULT_OPTIONS),
        (KernelSource.of(program(2)), DEFAULT_OPTIONS),
        (KernelSource.of(program(name="z")), DEFAULT_OPTIONS),
        (KernelSource.of(base, workgroup=(64, 1, 1)), DEFAULT_OPTIONS),
        (KernelSource.of(base), replace(DEFAULT_OPTIONS, assume=frozenset({Assumption.ALIGNED16}))),
        (KernelSource.of(base), replace(DEFAULT_OPTIONS, target=80)),
        (KernelSource.of(base, {"n": 6}), DEFAULT_OPTIONS),
    ]
    assert len({id(r.cache.get(*variant)) for variant in variants}) == len(variants)
    r.device.close()


def test_the_kernels_that_leave_are_recorded() -> None:
    journal = DecisionJournal()
    r = rig(limit=1, services=BackendServices(decisions=journal))
    first = program()
    for each in (first, program(2)):
        r.cache.get(KernelSource.of(each), DEFAULT_OPTIONS)
    given = [decision.arguments[0] for decision in journal.decisions]
    (left,) = [inputs.candidates for inputs in given if isinstance(inputs, EvictionInputs)]
    assert [each.key for each in left] == [f"kernels of program {first.digest.hex()}, (32, 1, 1), sm_90"]
    r.device.close()


def test_threads_that_want_one_module_compile_it_once() -> None:
    entered = threading.Event()
    release = threading.Event()

    def slow(
        program: Program, options: EmitOptions, spec: Mapping[str, Literal], sink: DecisionSink | None
    ) -> EmittedModule:
        entered.set()
        assert release.wait(LIMIT_S)
        return emit(program, options, spec, sink)

    r = rig(slow)
    found: list[int] = []

    def work() -> None:
        with r.device.calls:
            found.append(id(r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert entered.wait(LIMIT_S)
    release.set()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert r.device.counters.emits == 1
    r.device.close()


def test_a_failure_is_not_remembered() -> None:
    failures = [UnsupportedFeature(feature="x", backend="cuda-machine")]

    def flaky(
        program: Program, options: EmitOptions, spec: Mapping[str, Literal], sink: DecisionSink | None
    ) -> EmittedModule:
        if failures:
            raise failures.pop()
        return emit(program, options, spec, sink)

    r = rig(flaky)
    with pytest.raises(UnsupportedFeature):
        r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    assert len(r.cache) == 0
    assert r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS).kernels
    r.device.close()


@pytest.mark.parametrize("method", ["library_load", "library_kernel", "kernel_facts"])
def test_a_half_loaded_module_is_unloaded(method: DriverCall) -> None:
    r = rig()
    r.driver.inject(FaultPlan(calls=(Fault(code=Result.INVALID_VALUE, method=method),)))
    with pytest.raises(DispatchFailed):
        r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    assert r.driver.live()["library"] == 0
    r.device.close()


def test_parameters_that_the_driver_sees_elsewhere_are_an_error() -> None:
    def shifted(
        program: Program, options: EmitOptions, spec: Mapping[str, Literal], sink: DecisionSink | None
    ) -> EmittedModule:
        module = emit(program, options, spec, sink)
        kernel = module.kernels[0]
        moved = tuple(replace(p, offset=p.offset + 8) for p in kernel.parameters)
        return replace(module, kernels=(replace(kernel, parameters=moved),))

    r = rig(shifted)
    with pytest.raises(KernelCompileFailed, match="takes parameters at"):
        r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    assert r.driver.live()["library"] == 0
    r.device.close()


def test_a_module_that_gave_way_is_unloaded_once_nobody_holds_it() -> None:
    # The cache evicts what took the least time to make; here all took as long, and the oldest gives way.
    r = rig(limit=2, clock=WaitingClock(now_ns=lambda: 0))
    held = r.cache.get(KernelSource.of(program(0)), DEFAULT_OPTIONS)
    for value in range(1, 8):
        r.cache.get(KernelSource.of(program(value)), DEFAULT_OPTIONS)
    r.device.enter()
    assert len(r.cache) == 2
    assert r.driver.live()["library"] == 3
    assert r.cache.get(KernelSource.of(program(0)), DEFAULT_OPTIONS) is held
    del held
    for value in range(8, 16):
        r.cache.get(KernelSource.of(program(value)), DEFAULT_OPTIONS)
    r.device.enter()
    assert r.driver.live()["library"] == 2
    r.device.close()
    assert not any(r.driver.live().values())


def test_modules_of_a_program_are_discarded_whatever_their_workgroup() -> None:
    r = rig()
    base, other = program(), program(2)
    sources = [KernelSource.of(base), KernelSource.of(base, workgroup=(64, 1, 1)), KernelSource.of(base, {"n": 6})]
    held = r.cache.get(sources[0], DEFAULT_OPTIONS)
    for source in (*sources[1:], KernelSource.of(other)):
        r.cache.get(source, DEFAULT_OPTIONS)
    r.cache.discard(frozenset({base.digest}))
    assert len(r.cache) == 1
    assert r.cache.get(sources[0], DEFAULT_OPTIONS) is not held
    assert r.driver.calls["library_load"] == 5
    r.cache.get(KernelSource.of(other), DEFAULT_OPTIONS)
    assert r.driver.calls["library_load"] == 5
    r.cache.discard(None)
    assert len(r.cache) == 0
    r.device.close()
    assert not any(r.driver.live().values())


def test_a_module_that_outlives_its_device_unloads_nothing() -> None:
    r = rig()
    held = r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    r.device.close()
    del held
    assert not any(r.driver.live().values())
    assert not r.driver.violations


def test_modules_of_an_earlier_epoch_are_compiled_again() -> None:
    r = rig()
    first = r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS)
    r.device.recover()
    with r.device.calls:
        assert r.cache.get(KernelSource.of(program()), DEFAULT_OPTIONS) is not first
    r.device.close()
    assert not any(r.driver.live().values())
