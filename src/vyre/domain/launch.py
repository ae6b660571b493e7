"""The facts about one launch that follow from a program's interface, input lengths and config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from vyre.domain.binding import Binding, BindingPlan, BindingRole
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.geometry import (
    GridRule,
    LaneReach,
    LaunchGeometry,
    LaunchLimits,
    ReachedExtent,
    check_geometry,
    counting_rule,
    element_count,
    grid_of_extent,
    infer_grid,
)
from vyre.domain.names import Dim3
from vyre.domain.program_report import InvalidProgram

U32_MAX = 0xFFFF_FFFF


class Launch(NamedTuple):
    """A launch with all its sizes.

    ``counts`` (elements) and ``nbytes`` are indexed by position in the binding plan, ``output_nbytes`` and
    ``output_ranges`` by output.  The latter two describe what is returned: whole buffers, or the byte ranges [start,
    end) of them.
    """

    grid: Dim3
    workgroup: Dim3
    element_count: int
    counts: tuple[int, ...]
    nbytes: tuple[int, ...]
    output_nbytes: tuple[int, ...]
    output_ranges: tuple[tuple[int, int], ...]


_MOST_LANES_AN_ELEMENT: Final = 1 << 16
"""Indices such as ``y[i >> 31]`` may reach few elements with more lanes than any launch is meant to have."""


class Interface(NamedTuple):
    """The facts about a program that its caller needs.

    ``driven_by_input`` means that inputs count when the launch is sized, because workgroup memory or atomics fold
    them.  ``reach`` says what the ids of lanes reach; it is asked only where a grid is inferred.
    """

    plan: BindingPlan
    workgroup: Dim3
    driven_by_input: bool
    reach: Callable[[], LaneReach] = LaneReach


def launch_of(
    interface: Interface, input_nbytes: tuple[int, ...], config: DispatchConfig, limits: LaunchLimits
) -> Launch:
    """Returns the launch of a valid program with this interface.

    ``input_nbytes`` holds the length of each input in bytes.  Raises ``InvalidInput`` for inputs that do not fit,
    ``InvalidProgram`` for an output whose size is unknown, ``DeviceLimitExceeded`` for a launch beyond the backend's
    limits, and ``InvalidConfig`` for geometry.
    """
    plan = interface.plan
    counts = _counts(plan, input_nbytes, config)
    nbytes = tuple([n * b.element_size for n, b in zip(counts, plan.bindings, strict=True)])
    for binding, size in zip(plan.bindings, nbytes, strict=True):
        limits.check_buffer(binding.buffer.name, size)
    covered, rule = _covered(interface, counts, config)
    geometry = _geometry(interface, config, covered, rule)
    check_geometry(geometry.grid, geometry.workgroup, limits)
    ranges = tuple([_range(plan.bindings[i], nbytes[i]) for i in plan.outputs])
    sizes = tuple([end - start for start, end in ranges])
    if config.max_output_bytes is not None and sum(sizes) > config.max_output_bytes:
        raise InvalidConfig(
            f"the outputs take {sum(sizes)} bytes, max_output_bytes is {config.max_output_bytes}",
            fix="raise max_output_bytes, or return ranges of the outputs.",
        )
    return Launch(geometry.grid, geometry.workgroup, covered, counts, nbytes, sizes, ranges)


def sizes_of(plan: BindingPlan, input_nbytes: tuple[int, ...], config: DispatchConfig) -> dict[str, int]:
    """Returns the bytes of every buffer that is bound, by name.  Raises the errors of ``launch_of`` for counts."""
    counts = _counts(plan, input_nbytes, config)
    return {b.buffer.name: n * b.element_size for n, b in zip(counts, plan.bindings, strict=True)}


def geometry_of(interface: Interface, input_nbytes: tuple[int, ...], config: DispatchConfig) -> LaunchGeometry:
    """Returns the geometry of a launch that ``launch_of`` accepts, and the rule that chose it.

    ``input_nbytes`` is not used, and may be empty, where the config gives ``grid``, ``extent`` or
    ``element_count_override``.  Raises the errors of ``launch_of`` for counts and for a grid that cannot be inferred.
    """
    if config.grid or config.extent or config.element_count_override is not None:
        return _geometry(interface, config, *_given_count(config))
    return _geometry(interface, config, *_covered(interface, _counts(interface.plan, input_nbytes, config), config))


def padded_count(count: int) -> int:
    """Returns the least power of two of at least ``count``; 0 for 0, and ``count`` itself where that leaves 32 bits."""
    padded = count and 1 << (count - 1).bit_length()
    return padded if padded <= U32_MAX else count


def padded_grid(grid: Dim3) -> Dim3:
    """Returns the grid with each axis rounded up to a power of two."""
    x, y, z = map(padded_count, grid)
    return x, y, z


def _geometry(interface: Interface, config: DispatchConfig, covered: int, rule: GridRule) -> LaunchGeometry:
    geometry = _needed_geometry(interface, config, covered, rule)
    return geometry._replace(grid=padded_grid(geometry.grid)) if config.pad_grid else geometry


def _needed_geometry(interface: Interface, config: DispatchConfig, covered: int, rule: GridRule) -> LaunchGeometry:
    workgroup = config.workgroup or interface.workgroup
    if config.grid is not None:
        return LaunchGeometry(config.grid, workgroup, None, GridRule.GIVEN_GRID)
    if config.extent is not None:
        grid = grid_of_extent(config.extent, workgroup)
        is_reached = isinstance(config.extent, ReachedExtent)
        return LaunchGeometry(
            grid, workgroup, tuple(config.extent), GridRule.REACHED if is_reached else GridRule.GIVEN_EXTENT
        )
    grid = infer_grid(covered, workgroup)
    return LaunchGeometry(grid if covered else (0, 1, 1), workgroup, (covered,), rule)


def _given_count(config: DispatchConfig) -> tuple[int, GridRule]:
    return config.element_count_override or 0, GridRule.GIVEN_COUNT


def _covered(interface: Interface, counts: tuple[int, ...], config: DispatchConfig) -> tuple[int, GridRule]:
    if config.element_count_override is not None:
        return _given_count(config)
    driven = (BindingRole.OUTPUT, BindingRole.INPUT_OUTPUT)
    bindings = interface.plan.bindings
    returned: list[int] = []
    others: list[int] = []
    sizes: dict[str, int] = {}
    for count, binding in zip(counts, bindings, strict=True):
        if not binding.buffer.is_push:
            sizes[binding.buffer.name] = count
            (returned if binding.role in driven else others).append(count)
    driven_by_input = interface.driven_by_input
    covered, rule = (
        element_count(returned, others, driven_by_input=driven_by_input),
        counting_rule(returned, driven_by_input=driven_by_input),
    )
    if config.grid or config.extent or driven_by_input:
        return covered, rule
    reach = interface.reach()
    workgroup = config.workgroup or interface.workgroup
    reached = max([one.count_lanes((sizes[one.buffer],), workgroup[0]) for one in reach.axes[0]], default=0)
    is_meant = covered < reached <= covered * _MOST_LANES_AN_ELEMENT
    return (reached, GridRule.REACHED) if is_meant else (covered, rule)


def _counts(plan: BindingPlan, input_nbytes: tuple[int, ...], config: DispatchConfig) -> tuple[int, ...]:
    if len(input_nbytes) != len(plan.inputs):
        names = ", ".join(f"`{plan.bindings[i].buffer.name}`" for i in plan.inputs) or "none"
        raise InvalidInput(
            f"{len(input_nbytes)} inputs are given, the program takes {len(plan.inputs)}",
            fix=f"pass one per buffer, in binding order: {names}.",
        )
    by_name: dict[str, int] = {}
    counts: list[int | None] = []
    for binding in plan.bindings:
        count = binding.buffer.count or None
        if binding.input_index is not None:
            count = _input_count(binding, input_nbytes[binding.input_index])
        counts.append(count)
        if count is not None:
            by_name[binding.buffer.name] = count
    sizes = config.output_counts or {}
    if sizes:
        pairs = zip(plan.bindings, counts, strict=True)
        _check_given(sizes, {b.buffer.name for b, n in pairs if n is None and not b.buffer.like})
    return tuple(
        [
            n if n is not None else _allocated_count(plan, b, by_name, sizes)
            for b, n in zip(plan.bindings, counts, strict=True)
        ]
    )


def _check_given(counts: Mapping[str, int], unsized: set[str]) -> None:
    """Raises ``InvalidConfig`` if counts are given for other than ``unsized`` outputs."""
    if stray := sorted(counts.keys() - unsized):
        raise InvalidConfig(
            f"output_counts names {', '.join(f'`{name}`' for name in stray)}, no output whose size is left open",
            fix=f"name only {', '.join(f'`{name}`' for name in sorted(unsized))}." if unsized else "leave it out.",
        )


def _input_count(binding: Binding, nbytes: int) -> int:
    buffer, size = binding.buffer, binding.element_size
    if binding.static_nbytes is not None and nbytes != binding.static_nbytes:
        raise InvalidInput(
            f"`{buffer.name}` got {nbytes} bytes, but holds {buffer.count} elements of {size} bytes",
            fix=f"pass exactly {binding.static_nbytes} bytes.",
        )
    if nbytes % size:
        raise InvalidInput(
            f"`{buffer.name}` got {nbytes} bytes, no multiple of its element size {size}",
            fix=f"pass whole elements of {size} bytes.",
        )
    if nbytes // size > U32_MAX:
        raise InvalidInput(f"`{buffer.name}` has {nbytes // size} elements", fix="pass at most 2^32-1 elements.")
    return nbytes // size


def _allocated_count(plan: BindingPlan, binding: Binding, known: Mapping[str, int], counts: Mapping[str, int]) -> int:
    """Returns the count of a backend-allocated buffer without a static one: that of its model, or in
    ``output_counts``.
    """
    buffer = binding.buffer
    if buffer.like is not None and buffer.like in known and buffer.name not in counts:
        return known[buffer.like]
    models = {b.buffer.name: b.buffer.like for b in plan.bindings}
    name: str | None = buffer.name
    steps = 0
    while name is not None and steps <= len(models):
        if name in counts:
            return counts[name]
        if name in known:
            return known[name]
        name, steps = models.get(name), steps + 1
    raise InvalidProgram(
        f"the output `{buffer.name}` has no element count",
        fix=f"declare a count or like=<buffer>, or pass output_counts={{'{buffer.name}': n}}.",
    )


def _range(binding: Binding, nbytes: int) -> tuple[int, int]:
    wanted = binding.buffer.output_range
    if wanted is None:
        return 0, nbytes
    start, end = wanted
    if end > nbytes:
        raise InvalidProgram(
            f"output range {start}..{end} of `{binding.buffer.name}`, which has {nbytes} bytes",
            fix="return a range inside the buffer.",
        )
    return start, end
