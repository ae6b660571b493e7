"""Buffers beyond 2 GiB: addresses are computed in 64 bits, whatever the type of the index.

Only a window of the buffer has memory: its pointer lies so far below that window that the elements used are inside.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import ParameterKind
from vyre.adapters.cuda.ptx.options import ALL_OFF, EmitOptions
from vyre.adapters.cuda.seam import LaunchShape
from vyre.domain.ir.program import Program

COUNT: Final = (1 << 32) - 1
LANES: Final = 64
SIZE: Final = {"u8": 1, "u32": 4, "f64": 8}
ELEMENT: Final = {"u8": "v & 255u", "u32": "v", "f64": "cast<f64>(v)"}
NUMPY: Final = {"u8": np.uint8, "u32": np.uint32, "f64": np.float64}
INDEX: Final = {
    "u32": "{}u + i",
    "i32": "bitcast<i32>({}u) + bitcast<i32>(i)",
    "u64": "{}u64 + cast<u64>(i)",
    "i64": "{}i64 + cast<i64>(i)",
}


def written(text: str, element: str, first: int, emission: EmitOptions) -> np.ndarray:
    """Elements ``first`` to ``first + LANES`` after a launch of one workgroup."""
    module = emit(Program.from_text(text), emission)
    (kernel,) = module.kernels
    memory, size = DeviceMemory(), SIZE[element]
    window = memory.allocate(LANES * size)
    memory.fill(window, 0, LANES * size)
    block = bytearray(kernel.parameter_bytes)
    for parameter in kernel.parameters:
        value = parameter.value or 0
        if parameter.kind is ParameterKind.POINTER:
            value = window - first * size
        elif parameter.kind is ParameterKind.COUNT:
            value = COUNT
        block[parameter.offset : parameter.offset + parameter.size] = value.to_bytes(parameter.size, "little")
    entry = load_module(module.ptx).instantiate(memory).entries[kernel.entry]
    KernelRun(entry, LaunchShape((1, 1, 1), (LANES, 1, 1), 0), bytes(block), memory, RunOptions()).finish()
    return np.frombuffer(memory.read(window, LANES * size), NUMPY[element])


@pytest.mark.parametrize("emission", [EmitOptions(), EmitOptions(switches=ALL_OFF)], ids=["usual", "plain"])
@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("element", SIZE)
def test_elements_far_beyond_2_gib_are_read_and_written(element: str, index: str, emission: EmitOptions) -> None:
    first = (1 << 31) - LANES if index == "i32" else 4_000_000_000
    place = INDEX[index].format(first)
    text = f"""program far
workgroup_size {LANES}, 1, 1
buffer y @0 read_write {element}[runtime]
body {{
  let i = lid.x
  let v = i + 1u
  y[{place}] = {ELEMENT[element]}
  let before = y[{place}]
  y[{place}] = before + before
}}
"""
    assert written(text, element, first, emission).tolist() == [2 * (lane + 1) for lane in range(LANES)]


@pytest.mark.parametrize("element", SIZE)
def test_so_are_elements_at_known_indices(element: str) -> None:
    first = 4_000_000_000
    stores = "\n".join(f"    y[{first + k}{'u' if k % 2 else 'i64'}] = {ELEMENT[element]}" for k in range(4))
    text = f"""program far
workgroup_size {LANES}, 1, 1
buffer y @0 read_write {element}[runtime]
body {{
  let v = 7u
  if lid.x == 0u {{
{stores}
  }}
}}
"""
    assert written(text, element, first, EmitOptions()).tolist() == [7] * 4 + [0] * (LANES - 4)


def test_a_negative_i32_misses_the_largest_buffer() -> None:
    """Its bit pattern, as a u32, would be the number of an element."""
    first = (1 << 32) - LANES - 1
    text = f"""program far
workgroup_size {LANES}, 1, 1
buffer y @0 read_write u8[runtime]
body {{
  let i = lid.x
  y[bitcast<i32>({first}u + i)] = 1u
  let missed = y[bitcast<i32>({first}u + i)]
  y[{first}u + i] = missed + 5u
}}
"""
    assert written(text, "u8", first, EmitOptions()).tolist() == [5] * LANES
