"""Dispatches with at least one resident buffer.

Resident buffers are bound as they are; host data that the program only reads is passed as inputs; host data that it
updates, and outputs that the caller did not bind, get device memory for this dispatch and are read back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, cast

import numpy as np

from vyre.app.asynchrony.order import Accesses, accesses_to
from vyre.app.host_arrays import ArrayStorage, HostInputs, HostOutputs, Shapes, foreign_resident, is_value, reading
from vyre.app.host_memory import host_dtype, host_memory
from vyre.app.launches import Launches
from vyre.app.lease import BackendLease
from vyre.app.output_shapes import OutputShapes
from vyre.app.resident import ResidentArray, belongs_to
from vyre.app.resident_plans import LARGEST_DATA, HostData, ResidentPlan, ResidentPlans, Scratch, Taken, key_of
from vyre.app.result import Result
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import interface_of, resolve_launch
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.numpy_scalars import is_bfloat16
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.memory_ranges import check_overlap
from vyre.domain.unique import Closing
from vyre.ports.backend import Backend
from vyre.ports.cancellation import Cancellation
from vyre.ports.execution import BoundResidentStep, ResidentExecutor
from vyre.ports.requests import HostBytes, Readback, ResidentSequence, ResidentStep, Resource, Upload
from vyre.ports.resident_buffer import ResidentBuffer

_BYTE: Final = np.dtype(np.uint8)
_BOOL: Final = np.dtype(np.bool_)


def has_resident(inputs: object) -> bool:
    """Returns whether any of these arguments is a ``ResidentArray``."""
    if type(inputs) is dict or isinstance(inputs, Mapping):  # the first test is quicker
        inputs = inputs.values()
    elif not isinstance(inputs, Sequence):
        return False
    return any(isinstance(value, ResidentArray) for value in inputs)


def run_resident(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    plans: ResidentPlans,
    inputs: object,
    output_shapes: OutputShapes,
    shapes: Shapes | None = None,
    cancellation: Cancellation | None = None,
) -> Result:
    """Runs once.  Host results are in the ``Result``, resident ones in ``Result.resident``.

    ``plans`` are those of this program and config.  ``shapes`` are those of all outputs; where it is None,
    ``output_shapes`` decides.
    """
    if type(inputs) in (list, tuple) and len(cast("Sequence[object]", inputs)) == len(host_inputs.names):
        inputs = dict(zip(host_inputs.names, cast("Sequence[object]", inputs), strict=True))
    taken = plans.take(lease, host_inputs, inputs)
    arguments = cast("Mapping[str, object]", inputs)
    if taken is None:
        arguments = _arguments(program, host_inputs, inputs)
        taken = _planned(lease, program, config, host_inputs, plans, inputs, arguments)
    plan = taken.plan
    if plan.slots:
        shapes = output_shapes.of(arguments) if shapes is None else shapes
        shapes = None if shapes is None else tuple([shapes[slot] for slot in plan.slots])
    timing, storage, _ = _run(lease, taken, shapes, cancellation)
    resident = {name: cast("ResidentArray", arguments[name]) for name in plan.returned}
    if plan.key is None:
        plan.close()
    else:
        plans.give(plan)
    arrays = plan.outputs.arrays(storage)
    backend = str(lease.backend.id)
    return Result(plan.outputs.names, arrays, timing, backend, plan.launches, plan.lengths, resident)


def run_for_bytes(
    lease: BackendLease, program: Program, config: DispatchConfig, host_inputs: HostInputs, inputs: object
) -> tuple[DispatchTiming, dict[str, bytes]]:
    """Runs once, and returns the timing and the bytes of what is read back to the host, by buffer name."""
    taken = _planned(lease, program, config, host_inputs, None, inputs, _arguments(program, host_inputs, inputs))
    timing, _, views = _run(lease, taken, None, None)
    taken.plan.close()
    return timing, dict(zip(taken.plan.outputs.names, map(bytes, views), strict=True))


def _planned(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    plans: ResidentPlans | None,
    inputs: object,
    arguments: Mapping[str, object],
) -> Taken:
    """Checks a dispatch of these inputs, ``arguments`` by name, and makes its plan; ``plans`` may keep it."""
    memory = lease.backend.require_memory()
    lease.backend.require_resident_executor()
    check_residents(lease, program, arguments)
    sizes = resolve_sizes(lease, program, config, host_inputs, arguments)
    on_host = [each for each in sizes.bindings if not isinstance(arguments.get(each[0].name), ResidentArray)]
    key: Hashable | None = None
    if plans is not None and type(inputs) is dict:
        fits = [nbytes <= LARGEST_DATA and (view is None or buffer.name in inputs) for buffer, nbytes, view in on_host]
        key = key_of(inputs) if all(fits) else None
    if lease.budget is not None and any(view is None or buffer.is_writable for buffer, _, view in on_host):
        key = None  # memory that waits for the next call would take room from others
    data: list[HostData] = []
    scratch: list[Scratch] = []
    uploads: list[Upload] = []
    resources: list[Resource] = []
    try:
        for buffer, nbytes, view in sizes.bindings:
            argument = arguments.get(buffer.name)
            if isinstance(argument, ResidentArray):
                resources.append(argument.buffer)
            elif view is not None and not buffer.is_writable:
                if key is not None:
                    data.append(HostData(buffer.name, argument, view))
                    view = data[-1].view
                resources.append(view)
            else:
                slab = memory.allocate(nbytes, label=f"scratch {buffer.name}").quiet()  # it goes with the plan
                scratch.append(
                    Scratch(buffer.name, slab, None if view is None else view.nbytes, sizes.ranges.get(buffer.name))
                )
                resources.append(slab)
                if view is not None:
                    uploads.append(Upload(slab, view))
    except BaseException:
        for each in scratch:
            each.held.close()
        raise
    returned = outputs_of(program.abi_buffers)
    names = {each.name for each in scratch if each.returned is not None}
    steps = (ResidentStep(program, tuple(resources), config),)
    plan = ResidentPlan(
        key,
        lease.backend.lifecycle.epoch,
        () if plans is None or key is None else plans.arrays_of(cast("dict[str, object]", inputs), key),
        tuple(data),
        tuple(scratch),
        steps,
        ResidentSequence(prefix=steps),
        HostOutputs([buffer for buffer in returned if buffer.name in names]),
        tuple([slot for slot, buffer in enumerate(returned) if buffer.name in names]),
        tuple([buffer.name for buffer in returned if buffer.name not in names]),
        Launches(program.abi_buffers, partial(interface_of, program), sizes.config),
        sizes.lengths,
    )
    return Taken(plan, uploads)


def _run(
    lease: BackendLease, taken: Taken, shapes: Shapes | None, cancellation: Cancellation | None
) -> tuple[DispatchTiming, ArrayStorage, tuple[memoryview, ...]]:
    """Runs a plan; returns the storage of what was read back, and its bytes.  After a failure the plan is closed."""
    plan = taken.plan
    storage, reads = plan.outputs.storage(shapes), []
    views: tuple[memoryview, ...] = ()
    try:
        if taken.uploads:
            lease.backend.require_memory().upload(taken.uploads)
        if plan.slots:
            ranges = [(each.held, each.returned) for each in plan.scratch if each.returned is not None]
            views = storage.begin(tuple([end - start for _, (start, end) in ranges]))
            reads = [Readback(buffer, view, start) for (buffer, (start, _)), view in zip(ranges, views, strict=True)]
        sequence = plan.sequence
        if reads or cancellation is not None:
            sequence = ResidentSequence(prefix=plan.steps, reads=tuple(reads), cancellation=cancellation)
        return lease.backend.require_resident_executor().run(sequence), storage, views
    except BaseException:
        plan.close()
        raise


def resident_accesses(lease: BackendLease, program: Program, host_inputs: HostInputs, inputs: object) -> Accesses:
    """Returns what a dispatch reads and writes of resident memory.  Raises as ``run_resident`` does before it runs."""
    arguments = _arguments(program, host_inputs, inputs)
    check_residents(lease, program, arguments)
    _views(program, host_inputs, arguments)
    uses = ((arguments.get(buffer.name), buffer.is_writable) for buffer in program.abi_buffers)
    return accesses_to((array.buffer, writes) for array, writes in uses if isinstance(array, ResidentArray))


def detached(program: Program, host_inputs: HostInputs, inputs: object) -> dict[str, object]:
    """Returns the arguments of a dispatch, with copies of the host data among them."""
    return {name: _copied(name, value) for name, value in _arguments(program, host_inputs, inputs).items()}


class Arguments(NamedTuple):
    """The arguments of a dispatch by buffer name: the bytes of host data, and the resident arrays."""

    host: dict[str, bytes]
    resident: dict[str, ResidentArray]


def arguments_of(lease: BackendLease, program: Program, host_inputs: HostInputs, inputs: object) -> Arguments:
    """Returns the arguments of a dispatch, with copies of host data.  Raises as ``run_resident`` before it runs."""
    arguments = _arguments(program, host_inputs, inputs)
    check_residents(lease, program, arguments)
    views = zip(program.abi_buffers, _views(program, host_inputs, arguments), strict=True)
    return Arguments(
        {buffer.name: bytes(view) for buffer, view in views if view is not None},
        {name: value for name, value in arguments.items() if isinstance(value, ResidentArray)},
    )


def _copied(name: str, value: object) -> object:
    if isinstance(value, ResidentArray | bytes | int | float | np.generic):
        return value
    if isinstance(value, list | tuple):
        return deepcopy(value)
    memory = host_memory(value, f"input `{name}`")
    return memory.copy() if isinstance(memory, np.ndarray) else bytes(memory)


def bind_resident(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    plans: ResidentPlans,
    inputs: object,
) -> BoundResidentLaunch:
    """Prepares a launch on resident memory; every buffer that the program writes must be bound to a resident array.

    ``plans`` are those of this program and config.
    """
    known = plans.bound(lease, host_inputs, inputs)
    if known is not None:
        return BoundResidentLaunch(lease, repeated_step(lease.backend, known), known)
    arguments = _arguments(program, host_inputs, inputs)
    check_residents(lease, program, arguments)
    resources = _resources(program, _views(program, host_inputs, arguments), arguments)
    step = ResidentStep(program, resources, config)
    bound = repeated_step(lease.backend, step)  # a binder finds the sizes of the launch, and refuses it without any
    if isinstance(bound, _BySequence):
        resolve_sizes(lease, program, config, host_inputs, arguments)
    elif type(inputs) is dict and len(inputs) == len(arguments):
        host = [(b, m) for b, m in zip(program.abi_buffers, resources, strict=True) if isinstance(m, memoryview)]
        if all(buffer.is_push for buffer, _ in host):
            plans.keep_bound(arguments, [(buffer.name, bytes(number)) for buffer, number in host], step)
    return BoundResidentLaunch(lease, bound, step)


def reads_host(step: ResidentStep) -> bool:
    """Returns whether the step reads memory of the host that can change."""
    return any(isinstance(each, memoryview) and not is_value(each) for each in step.resources)


def host_arrays_of(steps: Iterable[ResidentStep]) -> str:
    """Returns the part of the ``repr`` of steps that names the arrays of the host which each run reads."""
    return reading(
        buffer.name
        for step in steps
        for buffer, each in zip(step.program.abi_buffers, step.resources, strict=True)
        if isinstance(each, memoryview) and not is_value(each)
    )


def repeated_step(backend: Backend, step: ResidentStep) -> BoundResidentStep:
    """Returns a step to call again and again, which reads the memory of the host in each call."""
    binder = backend.resident_binder
    if binder is None or reads_host(step):
        return _BySequence(backend.require_resident_executor(), ResidentSequence(prefix=(step,)))
    return binder.bind(step)


class BoundWork(NamedTuple):
    """A step with all its memory, and its launch with all sizes; ``sized`` is the config with the counts of outputs.

    ``excess``: the array in which a launch records that it found too large a grid in memory; None for any other.
    """

    step: ResidentStep
    launch: Launch
    sized: DispatchConfig
    excess: ResidentArray | None = None

    def with_memory(self, memory: Mapping[int, ResidentBuffer]) -> BoundWork:
        """Returns the launch with memory for the handles that it binds, by their identity."""
        resources = tuple(memory.get(id(resource), resource) for resource in self.step.resources)
        return self._replace(step=replace(self.step, resources=resources))


def bound_work(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    inputs: object,
    *,
    temporaries: bool = False,
) -> BoundWork:
    """Returns a step with all its memory: it reads host data, and writes none.  Raises ``InvalidInput``.

    ``temporaries``: temporary arrays may be bound too, and then their handles stand for memory that does not exist yet.
    """
    arguments = _arguments(program, host_inputs, inputs)
    check_residents(lease, program, arguments, temporaries=temporaries)
    sizes = resolve_sizes(lease, program, config, host_inputs, arguments)
    resources = _resources(program, [view for _, _, view in sizes.bindings], arguments)
    return BoundWork(ResidentStep(program, resources, config), sizes.launch, sizes.config)


def _resources(
    program: Program, views: Sequence[HostBytes | None], arguments: Mapping[str, object]
) -> tuple[Resource, ...]:
    """Returns the memory of a step in binding order; ``views`` holds the bytes of host data."""
    resources: list[Resource] = []
    for buffer, view in zip(program.abi_buffers, views, strict=True):
        argument = arguments.get(buffer.name)
        if isinstance(argument, ResidentArray):
            resources.append(argument.buffer)
        elif view is not None and not buffer.is_writable:
            resources.append(view)
        else:
            raise InvalidInput(
                f"`{buffer.name}` is written, but not bound to resident memory",
                fix="make it resident with session.resident(...) and bind that.",
            )
    return tuple(resources)


def _views(program: Program, host_inputs: HostInputs, arguments: Mapping[str, object]) -> list[HostBytes | None]:
    """Returns the bytes of the host data among the arguments, in binding order."""
    views: list[HostBytes | None] = []
    for buffer in program.abi_buffers:
        argument = arguments.get(buffer.name)
        is_host = not buffer.is_output and not isinstance(argument, ResidentArray)
        views.append(host_inputs.view(buffer.name, argument) if is_host else None)
    return views


class _BySequence:
    """``BoundResidentStep`` of a backend without bound steps, or that reads host data in each call: a sequence."""

    __slots__ = ("_executor", "_sequence")

    def __init__(self, executor: ResidentExecutor, sequence: ResidentSequence) -> None:
        self._executor, self._sequence = executor, sequence

    def __call__(self) -> None:
        self._executor.run(self._sequence)

    def close(self) -> None:
        return None


class BoundResidentLaunch(Closing):
    """A launch with all its memory bound: calling it launches and waits.  Not safe for concurrent use.

    Each call reads the host arrays in it as they are then; ``repr`` names them.
    Close it, or use it in a ``with`` block, before its arrays and its session.
    """

    __slots__ = ("_closed", "_described", "_lease", "_step", "launch")

    def __init__(self, lease: BackendLease, step: BoundResidentStep, described: ResidentStep | None) -> None:
        """``described`` is the step that ``repr`` shows, None for that of ``step``, which is a bound launch, too."""
        self._described = described
        self._lease = lease
        self._step = step
        self._closed = False
        self.launch: Callable[[], None] = step.__call__
        """The same as calling the object, without the check that it is open, and without waiting for asynchronous
        operations.
        """

    def __call__(self) -> None:
        if self._closed or self._lease.closed:
            self._lease.check_process()
            raise InvalidResource("the bound launch is closed", fix="bind it again in an open session.")
        if self._lease.order.under_way:
            self._lease.wait_for(None)
        self.launch()

    def __repr__(self) -> str:
        if self._described is None:
            return repr(self._step)
        name, reads = self._described.program.name or "unnamed", host_arrays_of([self._described])
        return f"<BoundResidentLaunch {name} on {self._lease.backend.id}{reads}>"

    def close(self) -> None:
        """Releases what was prepared; idempotent."""
        if not self._closed:
            self._step.close()
            self._closed = True  # last: who was interrupted closes again


class Sizes(NamedTuple):
    """Buffers in binding order with their bytes and, for host inputs, their data; returned ranges by name.

    ``lengths`` are the bytes of the inputs, and ``config`` is that of the dispatch with the counts of bound outputs.
    """

    bindings: list[tuple[Buffer, int, HostBytes | None]]
    ranges: dict[str, tuple[int, int]]
    lengths: tuple[int, ...]
    config: DispatchConfig
    launch: Launch


def resolve_sizes(
    lease: BackendLease,
    program: Program,
    config: DispatchConfig,
    host_inputs: HostInputs,
    arguments: Mapping[str, object],
) -> Sizes:
    """Returns the sizes of a launch with these arguments by name.  Raises ``InvalidInput``."""
    plan = plan_bindings(program)
    views = _views(program, host_inputs, arguments)
    lengths: list[int] = []
    counts: dict[str, int] = {}
    for binding, view in zip(plan.bindings, views, strict=True):
        name = binding.buffer.name
        argument = arguments.get(name)
        if isinstance(argument, ResidentArray):  # may be longer than the program needs
            room = argument.buffer.nbytes
            nbytes = binding.static_nbytes or room - room % binding.element_size
            if binding.input_index is None and not binding.buffer.count and binding.buffer.like is None:
                counts[name] = nbytes // binding.element_size
        elif view is not None:
            nbytes = view.nbytes
        if binding.input_index is not None:
            lengths.append(nbytes)
    if counts:
        config = replace(config, output_counts=counts | dict(config.output_counts or {}))
    launch = resolve_launch(program, tuple(lengths), config, LaunchLimits(str(lease.backend.id)))
    names = [plan.bindings[position].buffer.name for position in plan.outputs]
    return Sizes(
        list(zip([b.buffer for b in plan.bindings], launch.nbytes, views, strict=True)),
        dict(zip(names, launch.output_ranges, strict=True)),
        tuple(lengths),
        config,
        launch,
    )


def _arguments(program: Program, host_inputs: HostInputs, inputs: object) -> dict[str, object]:
    """Returns the arguments by buffer name; beside the inputs, a mapping may bind outputs to resident memory."""
    if type(inputs) is not dict and not isinstance(inputs, Mapping):
        return dict(zip(host_inputs.names, host_inputs.values(inputs), strict=True))
    bound = {b.name: inputs[b.name] for b in program.abi_buffers if b.is_output and b.name in inputs}
    for name, value in bound.items():
        if not isinstance(value, ResidentArray):
            raise InvalidInput(
                f"output `{name}` is bound to a {type(value).__name__}",
                fix="bind it to a resident array, or leave it out and read it from the result.",
            )
    rest = {name: value for name, value in inputs.items() if name not in bound}
    names = host_inputs.names
    if len(rest) == len(names) and all(map(rest.__contains__, names)):
        return rest | bound
    return dict(zip(names, host_inputs.values(rest), strict=True)) | bound


def check_residents(
    lease: BackendLease,
    program: Program,
    arguments: Mapping[str, object],
    *,
    temporaries: bool = False,
    typed: bool = True,
) -> None:
    """Checks the resident arrays among arguments by name.

    They must be open, of this lease, of the type of their buffer if it is ``typed``, and apart from each other where
    one is written.
    Raises ``InvalidInput`` and ``InvalidResource``.
    """
    bound: dict[int, list[tuple[str, bool, int, int]]] = {}
    for buffer in program.abi_buffers:
        array = arguments.get(buffer.name)
        if not isinstance(array, ResidentArray):
            continue
        if not belongs_to(array, lease):
            raise foreign_resident(buffer.name, array)
        if array.is_temporary and not temporaries:
            raise InvalidResource(
                f"`{buffer.name}` is bound to {array!r}, which has no memory outside of a sequence",
                fix="bind it in the steps of session.sequence(...), or use session.resident(...).",
            )
        if array.buffer.closed:
            raise InvalidResource(f"`{buffer.name}` is bound to {array!r}", fix="keep it open while it is used.")
        if typed:
            _check_type(buffer, array)
        memory = array.buffer
        uses = bound.setdefault(id(memory.root), [])
        uses.append((buffer.name, buffer.is_writable, memory.offset, memory.offset + memory.nbytes))
    for uses in bound.values():
        if len(uses) > 1:
            check_overlap(uses)


def _check_type(buffer: Buffer, array: ResidentArray) -> None:
    """Checks the element type: resident bytes are untyped; a resident array has its element type."""
    if buffer.is_push:
        raise InvalidInput(f"parameter `{buffer.name}` is bound to resident memory", fix="pass a number.")
    assert isinstance(buffer.element, ScalarType)  # a valid program has no other buffers
    has_type = array.dtype in (host_dtype(buffer.element), _BYTE)
    if not has_type and not (buffer.element is ScalarType.BF16 and is_bfloat16(array.dtype)):
        raise InvalidInput(
            f"`{buffer.name}` holds {buffer.element.text}, got resident memory of {array.dtype}",
            fix="make it resident from an array of that type, or from bytes.",
        )
    if array.buffer.offset % buffer.element.size:
        raise InvalidInput(
            f"`{buffer.name}` holds {buffer.element.text}, and {array!r} begins between two elements of "
            f"{buffer.element.size} bytes",
            fix=f"bind a part that begins at a multiple of {buffer.element.size} bytes.",
        )
    if array.dtype == _BOOL and array.stored.itemsize != buffer.element.size:
        raise InvalidInput(
            f"`{buffer.name}` holds {buffer.element.text}, of {buffer.element.size} bytes, and the resident memory "
            f"truth values of {array.stored.itemsize} bytes",
            fix="declare the buffer as bool, or make the memory from x.view(numpy.uint8)."
            if array.stored.itemsize == 4
            else "declare the buffer as bool8.",
        )
