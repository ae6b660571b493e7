"""Parameters of a program that hold sizes of arrays: those that a kernel in plain Python has for rows and planes.

The module imports no program, so that bundles run without the language of programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from vyre.domain.ir.buffers import Buffer

SizeParameter: TypeAlias = "tuple[str, str, int]"
"""The name of a parameter, and the array and the axis of which it holds the size."""
SIZE_NAMES: Final = ("width", "height")
"""The sizes of the last axis and of the one before it, which a kernel takes as hidden parameters ``x_width``."""


def written_sizes(sizes: Iterable[SizeParameter], buffers: Iterable[Buffer]) -> tuple[SizeParameter, ...]:
    """Returns the sizes that written forms have: of scalar parameters, once each, and of the axes of other buffers."""
    is_push = {buffer.name: buffer.is_push for buffer in buffers if buffer.is_bound}
    return tuple(
        {
            name: (name, array, axis)
            for name, array, axis in sizes
            if is_push.get(name) and is_push.get(array) is False and -len(SIZE_NAMES) <= axis < 0
        }.values()
    )


def size_parameters(program: object) -> dict[str, tuple[str, int]]:
    """Returns the parameters that hold sizes of arrays of a kernel in plain Python: the array and the axis of each.

    A caller need not pass those whose array is an input.
    """
    sizes: tuple[SizeParameter, ...] = getattr(program, "sizes", ())
    return {name: (array, axis) for name, array, axis in sizes}


def sizes_of_axes(program: object, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes of the axes after the first, by array; ``values`` are those of the size parameters."""
    axes: dict[str, dict[int, int]] = {}
    for name, (_, axis) in size_parameters(program).items():
        if values.get(name, 0) > 0:
            axes.setdefault(name.removesuffix(f"_{SIZE_NAMES[-axis - 1]}"), {})[axis] = values[name]
    return {
        array: tuple([sizes[axis] for axis in sorted(sizes)])
        for array, sizes in axes.items()
        if sorted(sizes) == list(range(-len(sizes), 0))
    }
