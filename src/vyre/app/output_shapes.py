"""The shapes of the arrays that a dispatch returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from vyre.adapters.host.foreign import shape_of
from vyre.app.host_arrays import Shape, Shapes, Signature, cuts_elements
from vyre.app.host_memory import host_memory
from vyre.app.resident import ResidentArray
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.buffers import inputs_of, outputs_of


class OutputShapes:
    """Decides the shapes of the outputs of one program under one config.

    A buffer of kind ``inout`` is returned in the shape of the array (or other typed memory) that was passed; bytes are
    returned with one axis.  An output with as many elements as an extent (x, y, z) has lanes gets the shape (z, y, x).
    """

    __slots__ = ("_declared", "_flat", "_passed")

    def __init__(self, program: Signature, config: DispatchConfig) -> None:
        names = [b.name for b in inputs_of(program.abi_buffers)]
        returned = outputs_of(program.abi_buffers)
        whole = [(slot, b) for slot, b in enumerate(returned) if not cuts_elements(b)]
        self._flat: Final[Shapes] = (None,) * len(returned)
        self._passed: Final = tuple((slot, b.name, names.index(b.name)) for slot, b in whole if b.takes_input)
        self._declared: Shapes | None = None
        if config.extent is not None and len(config.extent) > 1:
            for slot, buffer in whole:
                if not buffer.takes_input:
                    self._declared = _with(self._declared or self._flat, slot, config.extent[::-1])

    def of(self, inputs: Mapping[str, object] | Sequence[object]) -> Shapes | None:
        """Returns the shapes of the outputs of a dispatch with these (accepted) ``inputs``; None if all have one
        axis.
        """
        shapes = self._declared
        if not self._passed:
            return shapes
        named = type(inputs) is dict or isinstance(inputs, Mapping)  # the first test is quicker
        for slot, name, place in self._passed:
            value = inputs[name if named else place]  # type: ignore[index]  # ``named`` tells which of them it is
            shape = value.shape if type(value) is np.ndarray else _shape_of(name, value)
            if shape is not None and len(shape) != 1:
                shapes = _with(shapes or self._flat, slot, shape)
        return shapes


class FixedShapes:
    """The shapes of the outputs of every dispatch, which do not depend on its inputs."""

    __slots__ = ("_shapes",)

    def __init__(self, shapes: Shapes) -> None:
        self._shapes: Final = None if all(shape is None for shape in shapes) else shapes

    def of(self, inputs: object) -> Shapes | None:
        """Returns the shapes; None if all have one axis."""
        return self._shapes


def _shape_of(name: str, value: object) -> Shape | None:
    """Returns the shape of an input that is no plain array; None where it has none."""
    if isinstance(value, ResidentArray):
        return None
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    try:
        memoryview(value)  # type: ignore[arg-type]  # its failure tells that it is another kind
    except (TypeError, ValueError):
        return shape_of(value)
    memory = host_memory(value, f"input `{name}`")
    return memory.shape if isinstance(memory, np.ndarray) else None


def _with(shapes: Shapes, slot: int, shape: Shape) -> Shapes:
    return (*shapes[:slot], shape, *shapes[slot + 1 :])
