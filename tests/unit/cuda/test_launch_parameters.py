"""Parameter blocks: what a kernel is given, byte for byte, and what it says by its trap record."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Init, Parameter, ParameterKind
from vyre.adapters.cuda.runtime.launch import (
    BoundKernel,
    ScratchAddresses,
    first_trap,
    pack_table,
    plan_scratch,
    read_trap,
)
from vyre.adapters.cuda.runtime.loaded import LoadedKernel, LoadedModule
from vyre.adapters.cuda.seam import KernelFacts, LaunchShape
from vyre.domain.binding import BindingPlan, plan_bindings

K = ParameterKind
FACTS = KernelFacts(32, 0, 0, 0, 1024, 78, 90, None)
SHAPE = LaunchShape((1, 1, 1), (32, 1, 1))


def plan() -> BindingPlan:
    with ProgramBuilder("p", workgroup=32) as p:
        p.input("x", u32)
        p.param("n", u32)
        p.output("y", u32, 8)
    return plan_bindings(p.build())


def kernel(*parameters: Parameter, tags: Sequence[str] = ()) -> LoadedKernel:
    nbytes = max((p.offset + p.size for p in parameters), default=0)
    return LoadedKernel(1, EmittedKernel("vy_0", (32, 1, 1), parameters, nbytes, 0, 0, False, (), tuple(tags)), FACTS)


def module(*kernels: LoadedKernel) -> LoadedModule:
    return LoadedModule(1, kernels)


EVERY_KIND = (
    Parameter(K.POINTER, 0, 8, 8, "x", 0, "u32", Init.INPUT),
    Parameter(K.POINTER, 8, 8, 8, "y", 2, "u32", Init.ZERO),
    Parameter(K.TRAP, 16, 8, 8, init=Init.ZERO, nbytes=32),
    Parameter(K.BARRIER, 24, 8, 8, init=Init.ZERO, nbytes=8),
    Parameter(K.SCRATCH, 32, 8, 8, init=Init.ZERO, nbytes=300),
    Parameter(K.COUNT, 40, 4, 4, "x", 0, "u32"),
    Parameter(K.COUNT, 44, 4, 4, "y", 2, "u32"),
    Parameter(K.SCALAR, 48, 4, 4, "n", 1, "u32"),
    Parameter(K.SCALAR, 52, 4, 4, value=0),
    Parameter(K.UNIFORM, 64, 4, 16, "x", 0, "u32", Init.INPUT),
)


def test_parameters_are_packed_as_declared() -> None:
    loaded = kernel(*EVERY_KIND)
    scratch = plan_scratch(module(loaded))
    assert (scratch.zeroed, scratch.offsets, scratch.can_trap) == (256 + 512, ((0, 256),), True)
    bound = BoundKernel(loaded, SHAPE, plan(), scratch.offsets[0])
    bound.bind([0x1000, 0, 0x2000], [2**33, 1, 8], ScratchAddresses(zeroed=0x3000, trap=0x4000))
    bound.set_values([memoryview(b"abcd"), memoryview(struct.pack("<I", 77)), None])
    expected = struct.pack("<5Q4I8x", 0x1000, 0x2000, 0x4000, 0x3000, 0x3100, 0xFFFF_FFFF, 8, 77, 0) + b"abcd"
    assert bytes(bound.parameters.buffer) == expected


def test_a_table_holds_every_binding_but_scalars() -> None:
    found = pack_table(plan(), [0x1000, 0, 0x2000], [5, 1, 8])
    assert struct.unpack("<QIIQII", found) == (0x1000, 5, 0, 0x2000, 8, 0)
    table = Parameter(K.TABLE, 0, 8, 8, init=Init.ZERO, nbytes=32)
    assert plan_scratch(module(kernel(table), kernel(table))).table == 32


def test_a_trap_record_names_tag_address_and_lane() -> None:
    loaded = kernel(tags=("first", "second"))
    record = memoryview(struct.pack("<8I", 1, 40, 2, 3, 4, 5, 0, 0))
    trap = read_trap(record, loaded.emitted)
    assert trap is not None
    assert (trap.tag, trap.address, trap.global_id) == ("second", 40, (3, 4, 5))
    assert read_trap(memoryview(bytes(32)), loaded.emitted) is None


@pytest.mark.parametrize("trapped", [(), (0,), (2,), (1, 2)])
def test_the_earliest_kernel_that_trapped_is_reported(trapped: tuple[int, ...]) -> None:
    """Three kernels, each with a tag of its own; each records its number as the address."""
    bindings = plan()
    kernels = [BoundKernel(kernel(tags=(name,)), SHAPE, bindings, ()) for name in "abc"]
    records = b"".join(struct.pack("<8I", number in trapped, number, 1, 0, 0, 0, 0, 0) for number in range(3))
    found = first_trap(memoryview(records), kernels)
    assert (found and (found.address, found.tag)) == ((trapped[0], "abc"[trapped[0]]) if trapped else None)
