"""Kernels whose constants vary: the launches with other values of static parameters that the tuner may measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from vyre.app.kernels.launches import KernelLaunch, KernelSource, launch_of
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidInput
from vyre.domain.ir.program import Program, ProgramLike

if TYPE_CHECKING:
    from vyre.app.pipeline import Inputs
    from vyre.app.shorthand import Keywords
    from vyre.domain.dispatch import DispatchConfig


def with_constants(source: KernelSource, inputs: Inputs, constants: Mapping[str, int]) -> dict[str, Any]:
    """Returns the inputs by name, with other values of those static parameters that the kernel has."""
    arguments = source._parameters
    named = dict(zip(arguments.names, arguments.of_inputs(inputs), strict=True))
    named |= {name: value for name, value in constants.items() if name in arguments.statics}
    return {name: value for name, value in named.items() if value is not None}


def varied(
    source: ProgramLike, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords,
    vary: Mapping[str, Sequence[int]] | None,
) -> dict[str, Callable[[], KernelLaunch]]:  # fmt: skip
    """Returns the launches with all combinations of values but that of ``inputs``, by what tells them apart.

    Raises ``InvalidInput`` for names that are no static parameters, and values that are no ints.
    """
    launches: dict[str, Callable[[], KernelLaunch]] = {}
    if vary is None:
        return launches
    expect("vary", vary, Mapping, "a mapping from names of static parameters to their values", InvalidInput)
    kernel = cast("KernelSource", source)
    statics = () if isinstance(source, Program) else kernel._parameters.statics
    for name, values in vary.items():
        if name not in statics:
            fix = f"name some of: {', '.join(statics) or 'there are none'}."
            raise InvalidInput(f"vary: `{name}` is no static parameter", fix=fix)
        expect(f"vary[{name!r}]", values, Sequence, "a sequence of ints", InvalidInput)
        for value in values:
            expect(f"a value in vary[{name!r}]", kernel._parameters.static(name, value), int, "an int", InvalidInput)
    declared = with_constants(kernel, inputs, {})
    for combination in product(*vary.values()):
        constants = dict(zip(vary, combination, strict=True))
        if any(declared[name] != value for name, value in constants.items()):
            text = ", ".join([f"{name}={value}" for name, value in constants.items()])
            launches[text] = partial(launch_of, kernel, with_constants(kernel, inputs, constants), config, shorthand)
    return launches
