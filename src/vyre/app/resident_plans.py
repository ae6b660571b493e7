"""Plans that dispatches on resident memory keep between two calls: a program bound to the same arrays is checked once.

A plan serves a call with the same arrays under the same names, all of them open, and host data of the same size.  Any
other call is checked in full, and so gets the error that it deserves.  A plan has device memory of its own for what the
program writes of the host; it goes with the plan.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import ref

from vyre.app.resident import ResidentArray, belongs_to
from vyre.ports.requests import HostBytes, ResidentSequence, ResidentStep, Upload

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, MutableMapping

    from vyre.app.host_arrays import HostInputs, HostOutputs
    from vyre.app.launches import Launches
    from vyre.app.lease import BackendLease
    from vyre.ports.resident_buffer import ResidentBuffer

PLANS: Final = 8
"""The plans that a pipeline keeps, of the latest calls."""
LARGEST_DATA: Final = 64 << 10
"""The most bytes of one buffer for which a plan has memory; to copy them at each call takes microseconds."""
Arrays: TypeAlias = "tuple[tuple[str, ref[ResidentArray]], ...]"
"""Resident arrays by name, none of which is kept from being freed."""
_NUMBERS: Final = frozenset((bool, int, float))
"""Types of which one object always has the same bytes."""


class HostData:
    """Host bytes that a step reads in place, with the value whose bytes they are."""

    __slots__ = ("_value", "name", "view")

    def __init__(self, name: str, value: object, data: HostBytes) -> None:
        self.name: Final = name
        self.view: Final = memoryview(bytearray(data))
        self._value = value if type(value) in _NUMBERS else None

    def take(self, value: object, host_inputs: HostInputs) -> bool:
        """Takes the bytes of ``value``; returns False if it has more or fewer of them."""
        if value is self._value:
            return True
        data = host_inputs.view(self.name, value)
        if data.nbytes != self.view.nbytes:
            return False
        self.view[:] = data
        self._value = value if type(value) in _NUMBERS else None
        return True


class Scratch(NamedTuple):
    """Device memory of a plan for the buffer ``name``.

    ``nbytes`` of host data are copied to it, None for none, and its bytes ``returned`` are read back, None for none.
    """

    name: str
    held: ResidentBuffer
    nbytes: int | None
    returned: tuple[int, int] | None


class ResidentPlan(NamedTuple):
    """A checked dispatch with all its memory, which one call at a time uses.

    ``key`` is None for one that is used once.  ``arrays`` are the resident arrays by name, ``returned`` the names of
    those that the program returns.  ``outputs`` are the buffers that are read back, and ``slots`` their positions among
    all that are returned.
    """

    key: Hashable | None
    epoch: int
    arrays: Arrays
    data: tuple[HostData, ...]
    scratch: tuple[Scratch, ...]
    steps: tuple[ResidentStep]
    sequence: ResidentSequence
    outputs: HostOutputs
    slots: tuple[int, ...]
    returned: tuple[str, ...]
    launches: Launches
    lengths: tuple[int, ...]

    def close(self) -> None:
        """Gives the scratch memory back."""
        for each in self.scratch:
            each.held.close()


class Taken(NamedTuple):
    """A plan that a call uses, and the copies of host data to its scratch memory."""

    plan: ResidentPlan
    uploads: list[Upload]


class BoundPlan(NamedTuple):
    """A checked step of a bound launch, with the bytes of its parameters by name."""

    arrays: Arrays
    data: tuple[tuple[str, bytes], ...]
    step: ResidentStep


class ResidentPlans:
    """The plans of one pipeline; every method may be called from any thread."""

    __slots__ = ("_bound", "_plans")

    def __init__(self) -> None:
        self._plans: Final[OrderedDict[Hashable | None, ResidentPlan]] = OrderedDict()
        self._bound: Final[OrderedDict[Hashable, BoundPlan]] = OrderedDict()

    def take(self, lease: BackendLease, host_inputs: HostInputs, inputs: object) -> Taken | None:
        """Returns the plan for these arguments, with their host data, which nobody else has until it is given back.

        Returns None where none serves them.
        """
        if not self._plans or type(inputs) is not dict:
            return None
        plan = self._plans.pop(key_of(inputs), None)
        if plan is None or not _are_usable(plan.arrays, lease, inputs):
            return None
        if plan.scratch and plan.epoch != lease.backend.lifecycle.epoch:
            return None
        for data in plan.data:
            if not data.take(inputs[data.name], host_inputs):
                return None
        uploads = []
        for each in plan.scratch:
            if each.nbytes is not None:
                view = host_inputs.view(each.name, inputs[each.name])
                if view.nbytes != each.nbytes:
                    return None
                uploads.append(Upload(each.held, view))
        return Taken(plan, uploads)

    def give(self, plan: ResidentPlan) -> None:
        """Keeps a plan for later calls, as long as its arrays live."""
        self._plans[plan.key] = plan
        if len(self._plans) > PLANS:
            self._plans.popitem(last=False)

    def arrays_of(self, inputs: Mapping[str, object], key: Hashable) -> Arrays:
        """Returns the resident arrays among arguments; the plan of ``key`` is dropped with the first of them."""
        return _arrays_of(inputs, self._plans, key)

    def bound(self, lease: BackendLease, host_inputs: HostInputs, inputs: object) -> ResidentStep | None:
        """Returns the step of a bound launch with these arguments, None without one."""
        if not self._bound or type(inputs) is not dict:
            return None
        plan = self._bound.get(key_of(inputs))
        if plan is None or not _are_usable(plan.arrays, lease, inputs):
            return None
        if any(bytes(host_inputs.view(name, inputs[name])) != data for name, data in plan.data):
            return None
        return plan.step

    def keep_bound(
        self, inputs: Mapping[str, object], numbers: Iterable[tuple[str, bytes]], step: ResidentStep
    ) -> None:
        """Keeps the step of a bound launch with these arguments, until the first of its arrays is gone.

        ``numbers`` are the bytes of its parameters by name; no other host data are among the arguments.
        """
        key = key_of(inputs)
        self._bound[key] = BoundPlan(_arrays_of(inputs, self._bound, key), tuple(numbers), step)
        if len(self._bound) > PLANS:
            self._bound.popitem(last=False)


def _arrays_of(inputs: Mapping[str, object], plans: MutableMapping[Hashable, Any], key: Hashable) -> Arrays:
    """Returns the resident arrays among arguments; the plan of ``key`` is dropped with the first of them."""

    def drop(_: object) -> None:
        plans.pop(key, None)

    return tuple([(name, ref(value, drop)) for name, value in inputs.items() if isinstance(value, ResidentArray)])


def _are_usable(arrays: Arrays, lease: BackendLease, inputs: Mapping[str, object]) -> bool:
    """Returns whether the arguments of these names are these arrays, open and of the lease."""
    for name, one in arrays:
        array = one()
        if array is None or inputs[name] is not array or array.buffer.closed or not belongs_to(array, lease):
            return False
    return True


def key_of(inputs: Mapping[str, object]) -> Hashable:
    """Returns the key of the plan for these arguments: their names, and the identities of the resident arrays."""
    return (*inputs, *[id(value) for value in inputs.values() if type(value) is ResidentArray])
