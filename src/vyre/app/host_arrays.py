"""Conversion between host data (NumPy arrays, bytes, scalars) and the byte views of the ports.

Everything that follows from the program alone is decided once, when the converter of a buffer is made; the fast path of
a conversion is two identity checks and one view.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from vyre.app.foreign_arrays import listed_array
from vyre.app.host_memory import Array, host_dtype, host_memory, raw_bits, whole_array
from vyre.app.resident import ResidentArray
from vyre.domain.arguments import expect
from vyre.domain.byte_view import byte_view
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.float_mode import FACTORS, PROBE, PRODUCT
from vyre.domain.ir.bits import argument_bits
from vyre.domain.ir.buffers import Buffer, element_of, inputs_of
from vyre.domain.ir.size_parameters import size_parameters
from vyre.domain.ir.types import ScalarType, TypeKind
from vyre.domain.printable import kind_of

Converter: TypeAlias = Callable[[object], memoryview]
Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape | None, ...]
"""The requested shape of each output; None, or a shape with another number of elements, means one axis."""

PACKED: Final = {
    ScalarType.U32: struct.Struct("<I"),
    ScalarType.I32: struct.Struct("<i"),
    ScalarType.U64: struct.Struct("<Q"),
    ScalarType.I64: struct.Struct("<q"),
    ScalarType.F32: struct.Struct("<f"),
    ScalarType.F64: struct.Struct("<d"),
    ScalarType.BOOL: struct.Struct("<I"),
}
"""How a number of each type of scalar parameters is written."""
_NO_OUTPUT: Final = memoryview(bytearray())
"""Writable, because a backend may assign zero bytes to it."""


class Converted(np.ndarray[Any, np.dtype[Any]]):
    """An array that holds converted data, of which the caller keeps the original: later changes of it are not seen."""


def is_value(view: memoryview) -> bool:
    """Returns whether the bytes of an input never change: data that were converted, and ``bytes``."""
    return isinstance(view.obj, bytes | Converted)


def reading(names: Iterable[str]) -> str:
    """Returns the part of the ``repr`` of a prepared launch that names the arrays of the host which each run reads."""
    listed = ", ".join(dict.fromkeys(names))
    return f", reads {listed} of the host in each run" if listed else ""


class Signature(Protocol):
    """The buffers that arguments are bound to: a program, or the part of one that a bundle keeps."""

    @property
    def name(self) -> str | None:
        """The name of the program, for error messages."""

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        """The buffers that a caller binds, in binding order."""


class HostInputs:
    """Binds the inputs of one program: by name, or as a sequence in binding order."""

    __slots__ = ("_bound", "_converters", "_single", "_sizes", "_slots", "_title", "buffers", "names")

    _converters: tuple[Converter, ...]
    _slots: tuple[tuple[str, Converter], ...]

    def __init__(self, program: Signature) -> None:
        bound = program.abi_buffers
        buffers = inputs_of(bound)
        self._title = program.name or "the program"
        self._bound = bound
        self.buffers: tuple[Buffer, ...] = buffers
        """The buffers that the caller passes, in binding order."""
        self.names: tuple[str, ...] = tuple([b.name for b in buffers])
        """Their names."""
        self._single: dict[str, Converter] = {}
        sizes = size_parameters(program)
        names = set(self.names)  # a rewritten program may have fewer of them
        self._sizes = {name: size for name, size in sizes.items() if {name, size[0]} <= names} if sizes else sizes

    if not TYPE_CHECKING:  # type checkers know the slots

        def __getattr__(self, name: str) -> object:
            """Makes the converters of all inputs when they are first used: resident memory needs none."""
            if name == "_converters":
                value = tuple([converter_of(buffer) for buffer in self.buffers])
            elif name == "_slots":
                value = tuple(zip(self.names, self._converters, strict=True))
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            setattr(self, name, value)
            return value

    def views(self, inputs: Mapping[str, object] | Sequence[object]) -> tuple[memoryview, ...]:
        """Returns one byte view per input; raises ``InvalidInput`` naming the buffer."""
        if type(inputs) is dict and len(inputs) == len(self._slots):
            try:
                return tuple([convert(inputs[name]) for name, convert in self._slots])
            except KeyError:
                pass  # a name is missing: reported below
        values = self.values(inputs)
        return tuple([convert(value) for convert, value in zip(self._converters, values, strict=True)])

    def values(self, inputs: object) -> tuple[object, ...]:
        """Returns the arguments in binding order, not yet converted."""
        if self._sizes:
            inputs = self._with_sizes(inputs)
        if type(inputs) is dict or isinstance(inputs, Mapping):
            self._check_names(inputs)
            return tuple([inputs[name] for name in self.names])
        if not isinstance(inputs, Sequence) or isinstance(inputs, str | bytes | bytearray | memoryview):
            raise InvalidInput(
                f"inputs is of type `{type(inputs).__name__}`",
                fix=f"{self._all}{', in a dict from names to data or in a list' * bool(self.names)}.",
            )
        if len(inputs) != len(self.names):
            raise InvalidInput(
                f"{self._title} takes {len(self.names)} inputs, got {len(inputs)}", fix=f"{self._all}, in this order."
            )
        return tuple(inputs)

    def _with_sizes(self, inputs: object) -> object:
        """Returns inputs with the sizes of the arrays among them, which a caller need not pass."""
        if isinstance(inputs, Mapping):
            by_name = dict(inputs)
        elif isinstance(inputs, list | tuple) and len(inputs) == len(self.names) - len(self._sizes):
            by_name = dict(zip([name for name in self.names if name not in self._sizes], inputs, strict=True))
        else:
            return inputs
        for name, (array, axis) in self._sizes.items():
            shape = getattr(by_name.get(array), "shape", None)
            if name not in by_name and shape is not None and len(shape) >= -axis:
                by_name[name] = shape[axis]
        return by_name

    def view(self, name: str, value: object) -> memoryview:
        """Returns the bytes of one input."""
        convert = self._single.get(name)
        if convert is None:
            convert = self._single[name] = converter_of(self.buffers[self.names.index(name)])
        return convert(value)

    def column(self, name: str, values: object) -> memoryview:
        """Returns the bytes of many values of a scalar parameter, which is an array of its type."""
        element = element_of(self.buffers[self.names.index(name)])
        convert = _bool_converter(name) if element is ScalarType.BOOL else _array_converter(name, element)
        return convert(values)

    def _check_names(self, inputs: Mapping[str, object]) -> None:
        if len(inputs) == len(self.names) and all(map(inputs.__contains__, self.names)):
            return
        missing = [name for name in self.names if name not in inputs]
        extra = [name for name in inputs if name not in self.names]
        if missing or extra:
            problems = [f"input {_list(missing)} is missing"] * (len(missing) == 1)
            problems += [f"inputs {_list(missing)} are missing"] * (len(missing) > 1)
            problems += [f"{_list(extra)} {'is no input' if len(extra) == 1 else 'are no inputs'}"] * bool(extra)
            outputs = {buffer.name for buffer in self._bound if not buffer.takes_input}
            returned = [name for name in extra if name in outputs]
            note = f"; an output takes the array that it fills from out={{{returned[0]!r}: array}}" if returned else ""
            axes = [(b.name, *axis) for b in self._bound for axis in (("width", -1), ("height", -2))]
            sizes = [f"`{b}_{name}` is {b}.shape[{axis}]" for b, name, axis in axes if f"{b}_{name}" in missing]
            note += f"; of what was a kernel in Python, {', '.join(sizes)}" if sizes else ""
            raise InvalidInput(f"{self._title}: {' and '.join(problems)}", fix=f"{self._all}{note}.")

    @property
    def _all(self) -> str:
        return f"pass exactly {_list(self.names)}" if self.names else "pass no inputs"


def _list(names: Sequence[object]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def converter_of(buffer: Buffer) -> Converter:
    """Returns the conversion of arguments for a buffer to their bytes; it raises ``InvalidInput``."""
    assert isinstance(buffer.element, ScalarType)  # a valid program has no other buffers
    if buffer.is_push:
        return _push_converter(buffer.name, buffer.element)
    if buffer.element is ScalarType.BOOL:
        return _bool_converter(buffer.name)
    return _array_converter(buffer.name, buffer.element)


def _array_converter(name: str, element: ScalarType) -> Converter:
    dtype = host_dtype(element)

    def convert(value: object) -> memoryview:
        if type(value) is np.ndarray and value.dtype is dtype and value.size:
            view = memoryview(value)  # type: ignore[arg-type]  # ndarray has __buffer__ in the stubs from 3.12 on
            if view.c_contiguous:
                return view.cast("B").toreadonly()
        return _checked_view(name, element, dtype, _memory(name, element, value))

    return convert


def _bool_converter(name: str) -> Converter:
    words, bools = np.dtype("<u4"), np.dtype(np.bool_)

    def convert(value: object) -> memoryview:
        memory = _memory(name, ScalarType.BOOL, value)
        if isinstance(memory, np.ndarray) and memory.dtype == bools:
            memory = memory.astype(words).view(Converted)
        return _checked_view(name, ScalarType.BOOL, words, memory)

    return convert


def _memory(name: str, element: ScalarType, value: object) -> Array | memoryview:
    if isinstance(value, ResidentArray):
        raise foreign_resident(name, value)
    if isinstance(value, list | tuple):
        return listed_array(value, element, host_dtype(element), f"input `{name}`").view(Converted)
    if isinstance(value, bool | int | float | complex | np.generic | str):
        raise InvalidInput(
            f"input `{name}` is of type `{type(value).__name__}`, not an array",
            fix=f"pass numpy.array(..., dtype={_dtype_text(host_dtype(element))}).",
        )
    return host_memory(value, f"input `{name}`")


def _checked_view(name: str, element: ScalarType, dtype: np.dtype[Any], memory: Array | memoryview) -> memoryview:
    if isinstance(memory, np.ndarray):
        memory = raw_bits(memory, element)
        _check_dtype(name, element, dtype, memory.dtype)
    return byte_view(memory, name=f"input `{name}`")


def foreign_resident(name: str, array: ResidentArray) -> InvalidResource:
    """Returns the error for an array of another session."""
    return InvalidResource(
        f"`{name}` is bound to {array!r} of another session", fix="download it there and make it resident here."
    )


def _check_dtype(
    name: str, element: ScalarType, expected: np.dtype[Any], actual: np.dtype[Any], kind: str = "input"
) -> None:
    if actual == expected:
        return
    native = actual.newbyteorder("<")
    if native == expected:
        raise InvalidInput(
            f"{kind} `{name}` is big-endian ({actual.str})", fix=f"pass x.astype({_dtype_text(expected)})."
        )
    note = " (the raw 16 bits)" if element is ScalarType.BF16 else ""
    wanted = _dtype_text(host_dtype(element))
    converted = f", such as x.astype({wanted})" if actual.kind in "biuf" and not note else ""
    raise InvalidInput(
        f"{kind} `{name}` holds {element.text}, got an array of {actual}",
        fix=f"pass an array of {wanted}{note}{converted}, or bytes if it is raw memory.",
    )


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return f"numpy.{dtype.name}" if dtype.name != "bool" else "numpy.bool_"


# ---------------------------------------------------------------- scalar parameters
def direct_type(element: ScalarType) -> type:
    """Returns the type of numbers that a scalar parameter of this type takes without a conversion."""
    return float if element.is_float else bool if element.kind is TypeKind.BOOL else int


def _push_converter(name: str, element: ScalarType) -> Converter:
    pack = PACKED[element].pack
    direct = direct_type(element)
    rounds = element is ScalarType.F32

    def convert(value: object) -> memoryview:
        if type(value) is direct and (not rounds or PROBE * FACTORS == PRODUCT):
            try:
                return memoryview(pack(value))
            except (struct.error, OverflowError):
                pass  # out of range: reported below
        return memoryview(_push_bytes(name, element, value))

    return convert


def _push_bytes(name: str, element: ScalarType, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        memory = host_memory(value, f"parameter `{name}`")
        if isinstance(memory, np.ndarray):
            _check_dtype(name, element, host_dtype(element), memory.dtype, "parameter")
        raw = memory.tobytes()
        if len(raw) == element.size:
            return raw
        raise InvalidInput(
            f"parameter `{name}` is {element.text}, got {len(raw)} bytes",
            fix=f"pass a number, or {element.size} bytes.",
        )
    try:
        return argument_bits(element, value).to_bytes(element.size, "little")
    except ValueError as error:
        raise InvalidInput(f"parameter `{name}`: {error}") from None


# ---------------------------------------------------------------- outputs
class HostOutputs:
    """Names and NumPy types of the buffers that a dispatch returns to the host, in binding order."""

    __slots__ = ("_elements", "_is_bool", "_types", "converts", "names", "raw_types")

    def __init__(self, returned: Sequence[Buffer]) -> None:
        self.names: tuple[str, ...] = tuple(b.name for b in returned)
        self.raw_types: tuple[np.dtype[Any], ...] = tuple(map(_returned_dtype, returned))
        """The types of the elements that a run writes, in binding order."""
        self._elements = tuple(b.element for b in returned)
        self._is_bool = tuple(
            element is ScalarType.BOOL and raw.itemsize == 4
            for element, raw in zip(self._elements, self.raw_types, strict=True)
        )
        self._types = tuple(
            np.dtype(np.bool_) if is_bool else raw for is_bool, raw in zip(self._is_bool, self.raw_types, strict=True)
        )
        self.converts: bool = any(self._is_bool)
        """Whether the bytes of a run are not those of the arrays that a caller gets."""

    def storage(self, shapes: Shapes | None = None) -> ArrayStorage:
        """Returns storage of fresh arrays; ``shapes`` has one entry per output, None means that all have one axis."""
        return ArrayStorage(self.raw_types, shapes)

    def storage_in(
        self,
        out: Mapping[str, Array],
        inputs: Sequence[memoryview],
        shapes: Shapes | None = None,
        names: Sequence[str] = (),
        *,
        direct: bool = False,
    ) -> ArrayStorage:
        """Returns storage for arrays of the caller.  Raises ``InvalidInput`` for what takes no output.

        An array that is also the memory of the input of that name is written in place, and where ``direct`` so is any
        other that is aligned for words; the results of the rest are copied to them once the dispatch has succeeded.
        ``names`` are those of the inputs.  Raises ``InvalidResource`` for arrays that share memory otherwise.
        """
        direct = direct and not self.converts
        if type(out) is not dict:  # the first test is quicker
            expect("out", out, Mapping, "a mapping from output names to arrays", InvalidInput)
        elif direct and len(out) == len(self.names) == 1:  # the usual case, at a third of the price
            array = out.get(self.names[0])
            if type(array) is np.ndarray and array.dtype is self._types[0] and _is_plain(array, inputs):
                return OwnTarget(self.names[0], array)
        targets = dict(out)
        for name, array in targets.items():
            if name not in self.names:
                raise InvalidInput(f"out: `{name}` is no output", fix=f"the outputs are {_list(self.names)}.")
            usual = type(array) is np.ndarray and array.dtype is self._types[self.names.index(name)]
            if not usual or not array.flags.carray:
                targets[name] = self.checked_target(name, array, f"out `{name}`")
        in_place = _check_aliasing(targets, inputs, names)
        return CopyOutStorage(self.raw_types, self.names, targets, shapes, in_place, direct)

    def arrays(self, storage: ArrayStorage) -> tuple[Array, ...]:
        """Returns the results as arrays of the host type; they own their memory."""
        return self.typed(storage.arrays)

    def over(self, slots: Sequence[memoryview]) -> tuple[Array, ...]:
        """Returns arrays of the elements that a run writes, over the memory of each output."""
        return tuple([np.asarray(slot).view(raw) for slot, raw in zip(slots, self.raw_types, strict=True)])

    def from_bytes(self, slots: Sequence[memoryview], shapes: Shapes | None = None) -> tuple[Array, ...]:
        """Returns read-only arrays over ``slots``; arrays of ``bool`` are copies."""
        arrays = [np.frombuffer(slot, raw) for slot, raw in zip(slots, self.raw_types, strict=True)]
        if shapes is not None:
            arrays = [a.reshape(shape_for(a.size, shape)) for a, shape in zip(arrays, shapes, strict=True)]
        return self.typed(arrays)

    def typed(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Returns arrays of the host type from those that a run has filled."""
        if not self.converts:
            return tuple(arrays)
        return tuple(a != 0 if is_bool else a for a, is_bool in zip(arrays, self._is_bool, strict=True))

    def checked_target(self, name: str, array: object, title: str) -> Array:
        """Returns an array that can receive the output ``name``; raises ``InvalidInput`` for any other."""
        if not isinstance(array, np.ndarray):
            raise InvalidInput(f"{title} is {kind_of(array)}", fix="pass a NumPy array.")
        slot = self.names.index(name)
        expected = self._types[slot]
        array = raw_bits(whole_array(array, title), self._elements[slot])
        if array.dtype != expected:
            wanted = _dtype_text(expected)
            raise InvalidInput(
                f"{title} is an array of {array.dtype}, and {expected} is written to it",
                fix=f"pass an array of {wanted}, such as one that .astype({wanted}) makes.",
            )
        if not array.flags.writeable:
            raise InvalidInput(f"{title} is read-only", fix="pass a writable array, e.g. a copy.")
        if not array.flags.c_contiguous:
            raise InvalidInput(f"{title} is not C-contiguous", fix="pass numpy.empty(...) and copy from it.")
        return array


class ArrayStorage:
    """``OutputStorage`` of fresh NumPy arrays."""

    __slots__ = ("_dtypes", "_shapes", "arrays")
    updating: Sequence[str] = ()
    """The arrays of the caller that a run may have begun to write in place; empty before it begins."""

    def __init__(self, dtypes: tuple[np.dtype[Any], ...], shapes: Shapes | None = None) -> None:
        self._dtypes = dtypes
        self._shapes = shapes
        self.arrays: tuple[Array, ...] = ()

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Allocates one array per output and returns their bytes; implements ``OutputStorage.begin``."""
        shapes = self._shapes
        if len(sizes) == 1 and sizes[0] and (shapes is None or shapes[0] is None):  # the usual case, at half the price
            array = np.empty(sizes[0] // self._dtypes[0].itemsize, self._dtypes[0])
            self.arrays = (array,)
            return (memoryview(array).cast("B"),)  # type: ignore[arg-type]
        if shapes is None:
            shapes = (None,) * len(sizes)
        arrays, views = [], []
        for size, dtype, shape in zip(sizes, self._dtypes, shapes, strict=True):
            count = size // dtype.itemsize
            array = np.empty(count if shape is None else shape_for(count, shape), dtype)
            arrays.append(array)
            views.append(memoryview(array).cast("B") if count else _NO_OUTPUT)  # type: ignore[arg-type]
        self.arrays = tuple(arrays)
        return tuple(views)

    def clear(self) -> None:
        """Drops the arrays; implements ``OutputStorage.clear``."""
        self.arrays = ()

    def delivered(self, arrays: tuple[Array, ...], out: Mapping[str, Array]) -> tuple[Array, ...]:
        """Copies results to the arrays of the caller that the run has not written; returns those of ``out``, and the
        others.
        """
        return arrays


class OwnTarget(ArrayStorage):
    """``OutputStorage`` of the one array of the caller that a run writes; refuses other sizes before anything runs."""

    __slots__ = ("_name", "_target")

    def __init__(self, name: str, target: Array) -> None:
        self._name, self._target, self.arrays = name, target, ()

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Checks the size, and returns the bytes of the array.  Raises ``InvalidInput``."""
        target = self._target
        if target.nbytes != sizes[0]:
            raise _unfit(self._name, target, sizes[0] // target.itemsize)
        self.arrays = (target,)
        return (memoryview(target).cast("B") if sizes[0] else _NO_OUTPUT,)  # type: ignore[arg-type]


class CopyOutStorage(ArrayStorage):
    """``OutputStorage`` that refuses sizes that do not fit ``out``, the caller's arrays, before anything runs.

    A run writes those that are named ``in_place``, which hold an input, where ``direct`` also those that are aligned
    for words, and fresh ones in place of the others.
    """

    __slots__ = ("_direct", "_in_place", "_names", "_out", "copies", "updating")

    def __init__(
        self,
        dtypes: tuple[np.dtype[Any], ...],
        names: tuple[str, ...],
        out: Mapping[str, Array],
        shapes: Shapes | None = None,
        in_place: Sequence[str] = (),
        direct: bool = False,
    ) -> None:
        super().__init__(dtypes, shapes)
        self._names, self._out, self._in_place, self._direct = names, out, in_place, direct
        self.copies: bool = False
        """Whether results have to be copied to arrays of the caller."""
        self.updating: Sequence[str] = ()

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Checks the sizes, and allocates what is not written in place.  Raises ``InvalidInput``."""
        arrays: list[Array] = []
        for slot, name in enumerate(self._names):
            count, target = sizes[slot] // self._dtypes[slot].itemsize, self._out.get(name)
            if target is not None:
                if target.size != count:
                    raise _unfit(name, target, count)
                # NumPy aligns what it allocates.
                if name in self._in_place or (self._direct and (target.base is None or not _address(target) % 8)):
                    arrays.append(target)
                    continue
                self.copies = True
            shape = None if self._shapes is None else self._shapes[slot]
            arrays.append(np.empty(shape_for(count, shape), self._dtypes[slot]))
        self.updating = self._in_place
        self.arrays: tuple[Array, ...] = tuple(arrays)
        return tuple([memoryview(a).cast("B") if a.size else _NO_OUTPUT for a in arrays])  # type: ignore[arg-type]

    def delivered(self, arrays: tuple[Array, ...], out: Mapping[str, Array]) -> tuple[Array, ...]:
        if self.copies:
            for name, array in zip(self._names, arrays, strict=True):
                target = self._out.get(name)
                if target is not None and array is not target:
                    target.reshape(-1)[:] = array.reshape(-1)
        return tuple([out.get(name, array) for name, array in zip(self._names, arrays, strict=True)])


def _returned_dtype(buffer: Buffer) -> np.dtype[Any]:
    """Returns the element type of a returned buffer; raw bytes if the returned range cuts through elements."""
    return np.dtype(np.uint8) if cuts_elements(buffer) else np.dtype(element_of(buffer).numpy_name)


def cuts_elements(buffer: Buffer) -> bool:
    """Returns whether the returned range of a buffer begins or ends inside an element."""
    assert isinstance(buffer.element, ScalarType)  # a valid program has no other buffers
    return buffer.output_range is not None and any(offset % buffer.element.size for offset in buffer.output_range)


def shape_for(count: int, wanted: Shape | None) -> Shape:
    """Returns the shape of an output of so many elements: the requested one, if it has as many."""
    return wanted if wanted is not None and math.prod(wanted) == count else (count,)


def _is_plain(array: Array, inputs: Sequence[memoryview]) -> bool:
    """Returns whether an array can be written at once, and surely shares no memory with an input."""
    flags = array.flags
    if not (flags.carray and flags.owndata):
        return False
    for view in inputs:
        owner: object = view.obj
        if type(owner) is bytes:
            continue
        if type(owner) is not np.ndarray or owner is array or not owner.flags.owndata:
            return False
    return True


def _unfit(name: str, target: Array, count: int) -> InvalidInput:
    return InvalidInput(
        f"out `{name}` has {target.size} elements, the output has {count}",
        fix="pass an array of exactly that many elements.",
    )


def _check_aliasing(out: Mapping[str, Array], inputs: Sequence[memoryview], names: Sequence[str]) -> list[str]:
    """Returns the outputs that are to be written in place; raises ``InvalidResource`` for other shared memory."""
    in_place: list[str] = []
    before: list[str] = []
    for name, array in out.items():
        owned = array.flags.owndata
        for source, view in zip(names, inputs, strict=True):
            owner: object = view.obj  # all of its memory, of which ``view`` may be a part
            if type(owner) is bytes:
                continue
            if isinstance(owner, np.ndarray):
                apart = owned and owner.flags.owndata and owner is not array
                if apart or not np.may_share_memory(array, owner):
                    continue
            if not view.nbytes or not np.may_share_memory(array, other := np.frombuffer(view, np.uint8)):
                continue
            is_whole = array.nbytes == view.nbytes and (array is owner or _address(array) == _address(other))
            if source == name and is_whole and array.flags.aligned:
                in_place.append(name)
                continue
            part = f"a part of the memory of input `{source}`" if source == name else f"memory with input `{source}`"
            raise _shared(name, part)
        for source in before:
            if np.may_share_memory(array, out[source]):
                raise _shared(name, f"memory with out `{source}`")
        before.append(name)
    return in_place


def _shared(name: str, what: str) -> InvalidResource:
    return InvalidResource(
        f"out `{name}` shares {what}",
        fix="give every output memory of its own, or, to update in place, the very array that is its input.",
    )


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
