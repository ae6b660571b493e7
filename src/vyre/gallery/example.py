"""The parts of a gallery file: a kernel, inputs for it, and the answer computed without vyre."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre import DispatchConfig, Kernel
from vyre.ir import Program

Array: TypeAlias = npt.NDArray[Any]
Inputs: TypeAlias = Mapping[str, Array | int | float | bool]
Outputs: TypeAlias = Mapping[str, Array]


class Answers(Protocol):
    """The part of a dispatch result that the gallery reads."""

    def __getitem__(self, key: str, /) -> Array: ...


class Dispatcher(Protocol):
    """The part of a ``Session`` that the gallery uses."""

    def dispatch(self, program: Program, inputs: Inputs, config: DispatchConfig | None = None) -> Answers:
        """Runs the program on these inputs and returns its outputs by name."""


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs by buffer name, and the independently computed content of every returned buffer.

    ``tolerance_ulp`` is the largest allowed distance of floats, in units in the last place.
    """

    inputs: Inputs
    expected: Outputs
    config: DispatchConfig = field(default_factory=DispatchConfig)
    tolerance_ulp: int = 0


def dispatch_once(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Runs an example with one dispatch and returns its outputs by name."""
    result = session.dispatch(program, case.inputs, case.config)
    return {name: result[name] for name in case.expected}


def answered_by(compute: Callable[..., Array], output: str) -> Callable[[Dispatcher, Program, Case], Outputs]:
    """Returns how an example runs whose inputs, as arrays and in order, a function takes after session and program.

    ``output`` is the name of what the function returns.
    """

    def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
        return {output: compute(session, program, *map(np.asarray, case.inputs.values()))}

    return run


@dataclass(frozen=True, slots=True)
class Example:
    """One kernel of the gallery.

    ``source`` is a kernel in plain Python, or makes the program with a ``ProgramBuilder``.  ``checked_by`` names the
    source of the expected answer.  ``run`` differs from ``dispatch_once`` where the algorithm iterates.  ``builder``
    makes the program of a kernel in plain Python, with the same digest, for readers who compare the two.
    """

    name: str
    title: str
    source: Kernel[...] | Callable[[], Program]
    case: Callable[[], Case]
    checked_by: str
    run: Callable[[Dispatcher, Program, Case], Outputs] = field(default=dispatch_once)
    builder: Callable[[], Program] | None = None

    @property
    def kernel(self) -> Kernel[...] | None:
        """The kernel in plain Python; None where the program is made with a ``ProgramBuilder``."""
        return self.source if isinstance(self.source, Kernel) else None

    def program(self) -> Program:
        """Returns the program."""
        return self.source.program if isinstance(self.source, Kernel) else self.source()


def mismatches(case: Case, outputs: Outputs) -> list[str]:
    """Returns one line per buffer whose content differs from the expected one; empty when all agree."""
    return [line for name, want in case.expected.items() if (line := _difference(case, name, want, outputs[name]))]


def _difference(case: Case, name: str, want: Array, got: Array) -> str | None:
    if got.shape != want.shape:
        return f"{name}: {got.shape} elements, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"{name}: {got.dtype}, expected {want.dtype}"
    same = _bits(got) == _bits(want) if case.tolerance_ulp == 0 else ulps(got, want) <= case.tolerance_ulp
    if same.all():
        return None
    k, wrong = int(np.argmin(same)), int((~same).sum())
    return f"{name}: {wrong} of {same.size} elements differ, first [{k}]: {got.flat[k]}, expected {want.flat[k]}"


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


def ulps(got: Array, want: Array) -> Array:
    """Returns the distance in representable numbers; two NaN have distance 0, a NaN and a number a huge one."""
    width = got.dtype.itemsize * 8
    ordered = []
    for array in (got, want):
        bits = array.view(f"u{array.dtype.itemsize}").astype(object)
        sign = 1 << (width - 1)
        ordered.append(np.where(bits >= sign, sign - bits, bits))
    distance = np.abs(ordered[0] - ordered[1])
    both_nan, one_nan = np.isnan(got) & np.isnan(want), np.isnan(got) ^ np.isnan(want)
    return np.where(both_nan, 0, np.where(one_nan, 1 << width, distance))


def random_u32(seed: int, count: int) -> npt.NDArray[np.uint32]:
    """Returns the sequence s := s * 1664525 + 1013904223 mod 2^32 (Numerical Recipes), after one step from ``seed``."""
    values = np.empty(count, np.uint32)
    state = seed
    for k in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFF_FFFF
        values[k] = state
    return values


def random_f32(seed: int, count: int) -> npt.NDArray[np.float32]:
    """Returns the same sequence as multiples of 2^-23 in [-1, 1)."""
    return ((random_u32(seed, count) >> 8) / 2.0**23 - 1.0).astype(np.float32)
