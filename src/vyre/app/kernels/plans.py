"""``CallPlan``: a kernel compiled for what it is called with, and the conversions of its arguments; ``LaunchPlan``, the
same for a kernel that a session takes in place of a program.

Arrays that the kernel writes are the memory in which the backend writes, without a copy, if the program cannot trap and
no other argument shares their memory.  Else the run fills arrays of its own, which are copied when it has succeeded.
Either way the results are those of a run whose inputs are the contents before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.app.host_arrays import CopyOutStorage, HostOutputs, Shapes, converter_of
from vyre.app.host_memory import host_dtype
from vyre.app.kernels.arguments import Arguments, Resolved, Shape, Values
from vyre.app.kernels.call_code import BoundArgument, usual_call
from vyre.app.resident import ResidentArray, belongs_to
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.frontend.annotations import Like
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.types import ScalarType
from vyre.domain.tiles import may_fail

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.frontend.definition import Specialized

Array: TypeAlias = "npt.NDArray[Any]"
Convert: TypeAlias = Callable[[object], memoryview]
_Read: TypeAlias = "tuple[int, int, np.dtype[Any] | None, Convert]"
"""The position among the inputs, that of the argument, the type of an array that needs no check, and the conversion."""
_ndarray: Final = np.ndarray
_memoryview: Final[Callable[[Any], memoryview]] = memoryview  # ndarray has __buffer__ in the stubs from 3.12 on
_CHARACTER: Final = c_char.from_buffer
_ALIGNMENT: Final = 7
"""The bits of an address that are clear where words of 8 bytes are aligned."""
_NUMBERS: Final = (int, float, np.generic)


class _Written(NamedTuple):
    """An array that a kernel writes.

    ``position``: that of the argument.  ``place``: that among the inputs, or None.  ``dtype``: of the caller's array.
    ``shape``: of an output that is left out, unless it is like the argument ``model``.
    """

    position: int
    place: int | None
    dtype: np.dtype[Any]
    shape: Shape
    model: int | None


class LaunchPlan(NamedTuple):
    """A kernel compiled for inputs of the same names, types, static values and shapes.

    ``passed`` are the names of those inputs of the program that the caller passes, and ``sizes`` the others, which
    follow from the shapes.  ``shapes`` are those of the outputs, in binding order; None means one axis.  The key of the
    plan names ``config`` by its identity.
    """

    pipeline: Pipeline
    specialized: Specialized
    passed: tuple[str, ...]
    sizes: dict[str, int]
    shapes: Shapes
    config: DispatchConfig | None


class CallPlan:
    """Runs calls of one kernel whose arguments have the same types, static values and sizes of axes."""

    __slots__ = (
        "_arguments",
        "_hidden",
        "_in_place",
        "_lease",
        "_names",
        "_outputs",
        "_pairs",
        "_pipeline",
        "_read",
        "_taken",
        "_template",
        "_title",
        "_updated",
        "_written",
        "call",
        "specialized",
    )

    def __init__(
        self,
        arguments: Arguments,
        resolved: Resolved,
        specialized: Specialized,
        pipeline: Pipeline,
        lease: BackendLease,
    ) -> None:
        self.specialized: Final = specialized
        self._arguments: Final = arguments
        self._title: Final = arguments.title
        self._names: Final = arguments.names
        self._pipeline: Final = pipeline
        self._lease: Final = lease
        program = specialized.program
        hidden = resolved.sizes(program)
        places = {name: place for place, name in enumerate(arguments.names)}
        models = {name: array.size.name for _, name, array in arguments.arrays if isinstance(array.size, Like)}
        template: list[Any] = []
        read: list[_Read] = []
        updated: list[_Read] = []
        written: list[_Written] = []
        for buffer in program.abi_buffers:
            assert isinstance(buffer.element, ScalarType)  # a valid program has no other buffers
            place = len(template) if buffer.takes_input else None
            if buffer.takes_input:
                convert = converter_of(buffer)
                fixed = hidden.get(buffer.name)
                template.append(None if fixed is None else convert(fixed))
                if fixed is None:
                    convert = _Remembering(convert) if buffer.is_push else convert
                    dtype = None if buffer.is_push or buffer.element is ScalarType.BOOL else host_dtype(buffer.element)
                    (updated if buffer.is_returned else read).append(
                        (len(template) - 1, places[buffer.name], dtype, convert)
                    )
            if buffer.is_returned:
                model = models.get(buffer.name)
                while model in models:
                    model = models[model]
                written.append(
                    _Written(
                        places[buffer.name],
                        place,
                        host_dtype(buffer.element),
                        resolved.shapes[buffer.name],
                        None if model is None else places[model],
                    )
                )
        self._template: Final = template
        self._read: Final = tuple(read)
        self._updated: Final = tuple(updated)
        self._written: Final = tuple(written)
        self._taken: Final = frozenset(buffer.name for buffer in program.abi_buffers if buffer.takes_input)
        """The buffers whose bytes a caller passes."""
        self._hidden: Final = hidden
        self._outputs: Final = HostOutputs(outputs_of(program.abi_buffers))
        arrays = [place for place, _, _ in arguments.arrays]
        targets = [one.position for one in written]
        self._pairs: Final = tuple(
            (one, other)
            for one in targets
            for other in arrays
            if one != other and not (other in targets and other < one)
        )
        self._in_place: Final = not self._outputs.converts and not may_fail(program)
        self.call: Final[Callable[..., Any]] = self._usual_call() if self._in_place else self._run_any

    def run(self, values: Values) -> Any:
        """Runs the kernel; returns the outputs that are left out."""
        if not self._in_place or (self._lease.has_residents and any(type(one) is ResidentArray for one in values)):
            return self._run_checked(values)
        views = self._template.copy()
        memory: list[memoryview] = []
        returned: list[Array] | None = None
        given_outputs = False
        is_usual = True
        try:
            for slot, position, dtype, convert in self._read:
                array = values[position]
                if type(array) is _ndarray and array.dtype is dtype:
                    views[slot] = _memoryview(array).cast("B").toreadonly()
                else:
                    views[slot] = convert(array)
            for position, place, dtype, shape, model in self._written:
                array = values[position]
                if type(array) is _ndarray and array.dtype is dtype:
                    given_outputs = given_outputs or place is None
                elif array is None and place is None:
                    array = np.empty(shape if model is None else values[model].shape, dtype)
                    returned = [] if returned is None else returned
                    returned.append(array)
                else:
                    return self._run_checked(values)
                view = _memoryview(array)
                if view.readonly:
                    return self._run_checked(values)
                view = view.cast("B")
                if view and not array.flags.owndata and addressof(_CHARACTER(view)) & _ALIGNMENT:
                    return self._run_checked(values)
                memory.append(view)
                if place is not None:
                    views[place] = view.toreadonly()
        except (TypeError, AttributeError):  # an array without elements, with gaps, or of another kind
            is_usual = False
        except InvalidInput:
            self._arguments.bound(values, {})  # says which argument is missing, if one is None
            raise
        if not is_usual:
            return self._run_checked(values)
        for one, other in self._pairs:
            first, second = values[one], values[other]
            if first is None or second is None:
                continue  # memory of its own
            if (
                first is second
                or type(second) is not _ndarray
                or (not (second.flags.owndata and first.flags.owndata) and np.may_share_memory(first, second))
            ):
                return self._run_checked(values)
        self._pipeline.fill(views, InPlace(memory, self._outputs.names if given_outputs else None))
        if returned is None:
            return None
        return returned[0] if len(returned) == 1 else tuple(returned)

    # ---------------------------------------------------------------- details
    def _run_any(self, *values: Any) -> Any:
        return self.run(values)

    def _usual_call(self) -> Callable[..., Any]:
        arguments: list[BoundArgument | None] = [
            None if known is None else BoundArgument("known", None, known) for known in self._template
        ]
        for place, position, dtype, convert in self._read:
            if dtype is None:
                kind = "number" if isinstance(convert, _Remembering) else "converted"
                arguments[place] = BoundArgument(kind, position, convert)
            else:
                arguments[place] = BoundArgument("read", position, dtype)
        outputs = []
        for position, input_place, dtype, _, _ in self._written:
            if input_place is None:
                outputs.append(BoundArgument("output", position, dtype))
            else:
                arguments[input_place] = BoundArgument("updated", position, dtype)
        parts = {
            "run": self.run,
            "fill": self._pipeline.fill,
            "updated": Updated,
            "storage": InPlace,
            "names": self._outputs.names,
        }
        bound = [argument for argument in arguments if argument is not None]
        written = [one.position for one in self._written]
        return usual_call(len(self._names), [*bound, *outputs], written, self._pairs, parts)

    def _run_checked(self, values: Values) -> Any:
        """Checks what is written, runs on memory of its own, and copies the results where the run has succeeded."""
        self._arguments.bound(values, {})
        resident = [self._names[position] for position, value in enumerate(values) if isinstance(value, ResidentArray)]
        targets = [self._target(one, values[one.position]) for one in self._written]
        self._check_apart(values)
        shapes = tuple([self._shape(one, values) for one in self._written])
        if resident:
            return self._run_resident(values, resident, targets, shapes)
        views = self._template.copy()
        for place, position, _, convert in (*self._read, *self._updated):
            views[place] = convert(values[position])
        out = {name: target for name, target in zip(self._outputs.names, targets, strict=True) if target is not None}
        storage = CopyOutStorage(self._outputs.raw_types, self._outputs.names, out, shapes)
        self._pipeline.fill(views, storage)
        return _delivered(self._outputs.arrays(storage), targets)

    def _run_resident(
        self, values: Values, resident: Sequence[str], targets: Sequence[Array | None], shapes: Sequence[Shape]
    ) -> Any:
        for name, value in zip(self._names, values, strict=True):
            if isinstance(value, ResidentArray) and not belongs_to(value, self._lease):
                raise InvalidResource(
                    f"`{name}` of {self._title} is {value!r}, which another session holds",
                    fix="call the kernel inside `with session:` with the session of all its resident arrays.",
                )
        named = {
            name: value
            for name, value in zip(self._names, values, strict=True)
            if name in resident or (value is not None and name in self._taken)
        }
        result = self._pipeline(named | self._hidden)
        arrays, places = [], []
        for one, target, shape in zip(self._written, targets, shapes, strict=True):
            name = self._names[one.position]
            if name not in resident:
                array = result[name]
                arrays.append(array.reshape(shape) if target is None else array)
                places.append(target)
        return _delivered(arrays, places)

    def _target(self, one: _Written, array: object) -> Array | None:
        """Returns the array that receives a result, None where there is none.  Raises ``InvalidInput``."""
        if array is None or isinstance(array, ResidentArray):
            return None
        name = self._names[one.position]
        return self._outputs.checked_target(name, array, f"`{name}` of {self._title}")

    def _check_apart(self, values: Values) -> None:
        """Refuses two arguments that are written and share memory."""
        for number, one in enumerate(self._written):
            for other in self._written[:number]:
                first, second = values[one.position], values[other.position]
                if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
                    shared = first is second or np.may_share_memory(first, second)
                else:
                    shared = first is second and first is not None
                if shared:
                    raise InvalidResource(
                        f"`{self._names[other.position]}` and `{self._names[one.position]}` of {self._title} "
                        "share memory, and both are written",
                        fix="give each of them memory of its own, such as a copy.",
                    )

    def _shape(self, one: _Written, values: Values) -> Shape:
        like = None if one.model is None else values[one.model]
        return like.shape if isinstance(like, np.ndarray | ResidentArray) else one.shape


class Updated(tuple[memoryview, ...]):
    """``OutputStorage`` in arrays that are inputs too, so that their sizes fit."""

    __slots__ = ()

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Returns the memory of the arrays."""
        return self

    def clear(self) -> None:
        """Does nothing: what a failed run has written stays."""


class InPlace:
    """``OutputStorage`` in the caller's own arrays; ``names`` is None where their sizes are known to fit."""

    __slots__ = ("_memory", "_names")

    def __init__(self, memory: Sequence[memoryview], names: Sequence[str] | None) -> None:
        self._memory = memory
        self._names = names

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Returns the memory of the arrays.  Raises ``InvalidInput`` for arrays of another size."""
        memory = self._memory
        if self._names is not None and sizes != tuple(map(len, memory)):
            for name, view, size in zip(self._names, memory, sizes, strict=True):
                if len(view) != size:
                    raise InvalidInput(
                        f"`{name}` has {len(view)} bytes, the output has {size}",
                        fix="pass an array of exactly that size, or leave it out.",
                    )
        return tuple(memory)

    def clear(self) -> None:
        """Does nothing: what a failed run has written stays."""


def _delivered(arrays: Sequence[Array], targets: Sequence[Array | None]) -> Any:
    """Copies results to the arrays of the caller, and returns those without one."""
    returned = []
    for array, target in zip(arrays, targets, strict=True):
        if target is None:
            returned.append(array)
        else:
            target.reshape(-1)[...] = array.reshape(-1)
    if not returned:
        return None
    return returned[0] if len(returned) == 1 else tuple(returned)


class _Remembering:
    """A conversion of numbers that keeps the last one and its bytes: the same object is the same number."""

    __slots__ = ("_convert", "last")

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self.last: tuple[object, memoryview] = (object(), memoryview(b""))

    def __call__(self, value: object) -> memoryview:
        known, view = self.last
        if known is not value:
            view = self._convert(value)
            if isinstance(value, _NUMBERS):
                self.last = value, view
        return view
