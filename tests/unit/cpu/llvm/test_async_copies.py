"""Asynchronous copies of emitted code give the bytes of the canonical schedule."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

import vyre
from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.reference.agreement import ramp
from support.running import Outputs, oracle
from vyre.adapters.cpu.llvm.captures import MOST, Capture, scratch_for
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.runtime import stored_form
from vyre.domain.errors import DeviceOutOfMemory, MalformedWire
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


@pytest.mark.parametrize("lengths", [("24", "8"), ("runtime", "8"), ("runtime", "runtime")])
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE.keys())
@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES.keys())
def test_copies(copy: str, meanwhile: str, lengths: tuple[str, str]) -> None:
    """One workgroup is one vector, so that its schedule is canonical whatever the lanes do to each other."""
    condition = "wid.x < 2u" if "barrier" in meanwhile else "lid.x % 3u != 1u"
    text = f"""
        program copies
        workgroup_size 8, 1, 1
        buffer x @0 read_write u16[{lengths[0]}]
        buffer y @1 read_write u32[{lengths[1]}]
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


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
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


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("size", ["gid.x % 9u", "8u"])
def test_what_a_launch_gives_memory_for_is_kept_apart(lanes: int, size: str) -> None:
    """Four copies whose lengths a launch decides, in several vectors and across a barrier; no lane meets another."""
    text = f"""
        program launched
        workgroup_size 21, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer y @1 read_write u16[runtime]
        buffer z @2 read_write u32[runtime]
        body {{
          async_store(x, x, 512u + gid.x * 8u, {size}, "own")
          async_load(y, z, 6u, select(lid.x == 5u, 7u, 0u), "loaded")
          if x[100u + gid.x] % 2u == 0u {{
            async_store(x, y, 16u + gid.x * 8u, {size}, "t")
          }} else {{
            async_store(z, y, 17u + gid.x * 8u, {size} - min({size}, 1u), "t")
          }}
          barrier(seq_cst)
          if lid.x == 0u {{
            x[0u] = x[0u] + 1u
            y[4u] = y[4u] + 1u
            z[1u] = z[1u] * 3u
          }}
          barrier(seq_cst)
          async_wait("loaded")
          async_wait("t")
          async_wait("own")
        }}
    """
    inputs = {"x": ramp(256).tobytes(), "y": ramp(256).tobytes()[::-1], "z": ramp(64).tobytes()}
    (kernel,) = emit(Program.from_text(text), EmitOptions(lanes=lanes)).kernels
    assert len(kernel.captures) == (2 if size == "8u" else 4)  # a literal size is a bound
    one = case(text, inputs, grid=(2, 1, 1))
    assert isinstance(oracle(one), Outputs)
    assert not disagreements({"copies": one}, [Variant(lanes)])


def unbounded(size: str = "gid.x") -> Program:
    return Program.from_text(f"""
        program unbounded
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {{
          async_store(x, y, 0u, {size}, "t")
          x[gid.x] = 1u
          y[gid.x] = 2u
          async_wait("t")
        }}
    """)


def test_a_launch_gives_what_its_buffers_may_be_copied_into() -> None:
    (kernel,) = emit(unbounded(), EmitOptions(lanes=4)).kernels
    assert kernel.captures == (Capture(4, (0, 1), None),)
    always = kernel.scratch_bytes
    for nbytes, room in (((400, 80), 80), ((80, 400), 80), ((0, 8), 0)):
        assert scratch_for(always, kernel.captures, nbytes) == always + 4 * room
    assert scratch_for(always, (Capture(1 << 15, (0,), None),) * 10**6, (1 << 35,)) == 1 << 62
    (kernel,) = emit(unbounded("12u"), EmitOptions(lanes=4)).kernels
    assert kernel.captures == () and kernel.scratch_bytes > always
    (kernel,) = emit(unbounded(f"{1 << 31}u"), EmitOptions(lanes=4)).kernels
    assert kernel.captures == (Capture(4, (0, 1), 1 << 31),)
    assert scratch_for(0, kernel.captures, (1 << 33, 1 << 32)) == 4 << 31


@pytest.mark.parametrize("threads", [1, 4])
def test_a_session_gives_memory_by_the_lengths_of_each_launch(threads: int) -> None:
    program = Program.from_text("""
        program lengths
        workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {
          async_store(x, y, gid.x * 4u, x[gid.x] & 3u, "t")
          x[gid.x] = x[gid.x] * 3u
          y[gid.x] = y[gid.x] + 1u
          async_wait("t")
        }
    """)
    with vyre.open("cpu", cache=False, threads=threads) as session, vyre.open("reference", cache=False) as reference:
        for length in (3, 64, 4096, 1, 20_000):
            inputs = {"x": ramp(length), "y": ramp(length)[::-1].copy()}
            found, wanted = session.dispatch(program, inputs), reference.dispatch(program, inputs)
            for name in ("x", "y"):
                assert found[name].tobytes() == wanted[name].tobytes(), (length, name)


def test_more_than_there_is_memory_for_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_form, "scratch_for", lambda *_: MOST)
    inputs = {"x": ramp(8), "y": ramp(8)}
    with vyre.open("cpu", cache=False) as session:
        with pytest.raises(DeviceOutOfMemory):
            session.dispatch(unbounded(), inputs)
        monkeypatch.undo()
        assert session.dispatch(unbounded(), inputs)["x"][0] == 1


def test_a_layout_with_captures_can_be_stored() -> None:
    captures = (Capture(64, (0, 3), None), Capture(4, (), 1 << 30), Capture(4, (1,), 7))
    layout = stored_form.CodeLayout(4, Effort.LIGHT, (stored_form.KernelLayout("k", 64, (), None, captures),))
    assert stored_form.decode_layout(stored_form.encode_layout(layout)) == layout
    endless = layout._replace(kernels=(layout.kernels[0]._replace(captures=(Capture(4, (), None),)),))
    with pytest.raises(MalformedWire):
        stored_form.decode_layout(stored_form.encode_layout(endless))
