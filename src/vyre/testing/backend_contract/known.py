"""Kernels with the bytes that they must return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vyre.testing.backend_contract.bench import Bench, Kernel, u32s, words
from vyre.testing.backend_contract.expect import equal


@dataclass(frozen=True, slots=True)
class Known:
    """A kernel, its inputs and its outputs as bytes, in binding order; ``config``: fields of ``DispatchConfig``."""

    kernel: Kernel
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def mapping(body: str, x: tuple[int, ...], y: tuple[int, ...], *, lanes: int = 4, **config: Any) -> Known:
    """Returns ``body`` over an input ``x`` and an output ``y`` of equal length, both u32, in workgroups of ``lanes``
    lanes.
    """
    kernel = f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body {{ let i = gid.x {body} }}
    """
    return Known(kernel, (words(*x),), (words(*y),), config)


def check_known(bench: Bench, known: Known) -> None:
    """Raises ``Violation`` unless the kernel returns the expected bytes."""
    found = bench.run(known.kernel, *known.inputs, **known.config)
    equal(len(found), len(known.outputs), "the number of outputs")
    for number, (data, wanted) in enumerate(zip(found, known.outputs, strict=True)):
        if data != wanted and len(data) % 4 == 0:
            equal(u32s(data), u32s(wanted) if len(wanted) % 4 == 0 else wanted, f"output {number}")
        equal(data, wanted, f"output {number}")
