"""Asynchronous copies of emitted code give the bytes of the canonical schedule."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from support.agreement import ramp
from support.cpu_agreement import case, disagreements
from support.cpu_kernels import Variant
from support.running import Outputs, oracle
from vyre.adapters.cpu.llvm.emit import emit
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program

COPIES = {
    "load": 'async_load(x, y, gid.x * 3u, 5u, "t")',
    "load past the end": 'async_load(x, y, 40u + gid.x, 60u, "t")',
    "load beyond the end": 'async_load(x, y, 0xFFFFFFF0u, 8u, "t")',
    "load of nothing": 'async_load(x, y, 0xFFFFFFFFu, 0u, "t")',
    "load of everything": 'async_load(x, y, 0u, 0xFFFFFFFFu, "t")',
    "store": 'async_store(x, y, gid.x * 4u, 4u, "t")',
    "store past the end": 'async_store(x, y, 30u - gid.x, 0xFFFFFFFFu, "t")',
    "store beyond the end": 'async_store(x, y, 0xFFFFFFF0u + gid.x, 40u, "t")',
    "into workgroup memory": 'async_load(x, s, lid.x * 2u, 3u + lid.x, "t")',
    "out of workgroup memory": 'async_store(s, y, gid.x * 3u, 3u, "t")',
    "within one buffer": 'async_store(x, x, 16u + gid.x * 2u, 2u, "t")',
}
MEANWHILE = {
    "nothing": "",
    "the source is written": "x[gid.x] = 7u  s[lid.x] = 9u",
    "both are in use": "x[gid.x] = 7u  s[lid.x] = 9u  y[gid.x % 3u] = 5u",
    "a barrier": "barrier(seq_cst)",
    "a barrier and both in use": "barrier(seq_cst)  x[gid.x] = 7u  s[lid.x] = 9u  y[gid.x % 3u] = 5u",
}


def check(text: str, lanes: int, groups: int) -> None:
    """Compares the bytes of emitted code with those of the canonical schedule."""
    noise = ramp(60).tobytes()
    program = Program.from_text(text)
    buffers = [b for b in program.abi_buffers if b.takes_input]
    one = case(
        text, {b.name: noise[: program.buffer(b.name).static_nbytes or 48] for b in buffers}, grid=(groups, 1, 1)
    )
    assert isinstance(oracle(one), Outputs)
    assert not disagreements({"copies": one}, [Variant(lanes, narrow=True)])


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE.keys())
@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES.keys())
def test_copies(copy: str, meanwhile: str) -> None:
    """One workgroup is one vector, so that its schedule is canonical whatever the lanes do to each other."""
    condition = "wid.x < 2u" if "barrier" in meanwhile else "lid.x % 3u != 1u"
    text = f"""
        program copies
        workgroup_size 8, 1, 1
        buffer x @0 read_write u16[24]
        buffer y @1 read_write u32[8]
        buffer z @2 read_write u16[24] output
        buffer s @- workgroup u16[9]
        body {{
          s[lid.x] = 100u + gid.x
          barrier(seq_cst)
          if {condition} {{
            {copy}
            {meanwhile}
            async_wait("t")
          }}
          z[gid.x] = cast<u32>(s[lid.x + 1u])
        }}
    """
    check(text, 8, 3)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_vector_of_a_workgroup_keeps_its_own(lanes: int) -> None:
    """Copies that are kept across a barrier, one word for each of 21 lanes in several vectors."""
    text = """
        program vectors
        workgroup_size 21, 1, 1
        buffer x @0 read_write u32[42]
        buffer y @1 read_write u32[42] output
        body {
          async_store(x, x, gid.x * 4u, 2u, "own")
          async_load(x, y, 0u, 0u, "none")
          if x[gid.x] % 2u == 0u {
            async_store(x, y, gid.x * 4u, 4u, "t")
          } else {
            async_store(x, y, gid.x * 4u + 1u, 2u, "t")
          }
          barrier(seq_cst)
          async_wait("own")
          async_wait("t")
          async_wait("none")
          x[gid.x] = x[gid.x] + gid.x
        }
    """
    check(text, lanes, 2)


def test_a_copy_without_a_bound_is_refused() -> None:
    """What a lane would have to keep has no limit: the lengths and the size are known at run time only."""
    text = """
        program unbounded
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {
          async_store(x, y, 0u, gid.x, "t")
          x[gid.x] = 1u
          y[gid.x] = 2u
          async_wait("t")
        }
    """
    with pytest.raises(UnsupportedFeature, match="both buffers in use meanwhile"):
        emit(Program.from_text(text))
