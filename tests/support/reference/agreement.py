"""Kernels written as text, run on the vectorised engine with several chunk sizes and on the scalar oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from support.programs import Case, Order
from support.running import Failure, Outputs, oracle, run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import validate

Array: TypeAlias = npt.NDArray[Any]
ANY_CHUNK: Final = (1, 2, 7, None)
CANONICAL: Final = (1,)
"""For kernels with data races, which only have an answer one workgroup at a time."""
ENGINE: Final = VectorKernel


def agreed(
    kernel: Program | str,
    inputs: Mapping[str, Array],
    *,
    chunks: Sequence[int | None] = ANY_CHUNK,
    **config: Any,
) -> dict[str, Array]:
    """The outputs as arrays, after every chunk size gave the oracle's bytes."""
    case = _case(kernel, inputs, config)
    expected = oracle(case)
    for chunk in chunks:
        assert run(ENGINE, case, chunk) == expected, f"chunk_workgroups={chunk}"
    assert isinstance(expected, Outputs), expected
    return {name: np.frombuffer(data, _dtype(case.program, name)) for name, data in expected.bytes.items()}


def agreed_failure(
    kernel: Program | str,
    inputs: Mapping[str, Array],
    *,
    chunks: Sequence[int | None] = ANY_CHUNK,
    **config: Any,
) -> Failure:
    """The failure, after every chunk size gave the oracle's."""
    case = _case(kernel, inputs, config)
    expected = oracle(case)
    for chunk in chunks:
        assert run(ENGINE, case, chunk) == expected, f"chunk_workgroups={chunk}"
    assert isinstance(expected, Failure), expected
    return expected


def _case(kernel: Program | str, inputs: Mapping[str, Array], config: Mapping[str, Any]) -> Case:
    program = Program.from_text(kernel) if isinstance(kernel, str) else kernel
    validate(program).raise_if_invalid()
    stored = {name: np.ascontiguousarray(data).tobytes() for name, data in inputs.items()}
    return Case(program, stored, DispatchConfig(**config), Order.INDEPENDENT)


def _dtype(program: Program, name: str) -> np.dtype[Any]:
    element = program.buffer(name).element
    assert isinstance(element, ScalarType)
    return np.dtype(element.numpy_name)


def words(*values: int) -> Array:
    return np.array(values, np.uint32)


def ramp(count: int, start: int = 0) -> Array:
    """Distinct words: a bijection of ``start ..`` that looks like noise."""
    return (np.arange(start, start + count, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
