"""Stores to bound and workgroup memory, and scatters.

Where several lanes store to one element, the highest of them wins, as if they stored one after the other.
"""

from __future__ import annotations

from vyre.adapters.cpu.llvm import addressing
from vyre.adapters.cpu.llvm.addressing import Contiguous, bits_type, storable
from vyre.adapters.cpu.llvm.blocks import Spilled, branch, for_each_lane, intrinsic
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.loads import masks_are_cheap
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType


def store(k: Kernel, node: Store, index: Value, value: Value) -> None:
    """Writes element ``index`` of a bound or workgroup buffer in every active lane; drops it if out of range."""
    element = element_of(k.buffers[node.buffer])
    if index.is_uniform:
        _uniform(k, node, index, value, element)
    elif Contiguous.applies(index):
        _contiguous(k, node, index, _vector(k, element, value), element)
    else:
        _scattered(k, node, index, _vector(k, element, value), element)


def _vector(k: Kernel, element: ScalarType, value: Value) -> str:
    """Returns the bits to store in each lane, a vector."""
    bits = storable(k, element, value)
    return k.splat(bits_type(element), bits) if value.is_uniform else bits


# ---- one element for all lanes
def last_lane(k: Kernel) -> str:
    """Returns the number of the highest active lane, an i32 operand."""
    if k.mask is None:
        return str(k.lanes - 1)
    zeros = k.w.call("i32", "ctlz.i32", ("i32", k.word_of(k.mask)), ("i1", "false"))
    # The number may be computed before the test that a lane is active, and must then be that of some lane as well.
    return k.w.pure(f"and i32 {{}}, {k.lanes - 1}", k.w.pure("sub i32 31, {}", zeros))


def last_bits(k: Kernel, element: ScalarType, value: Value) -> str:
    """Returns the bits that the highest active lane stores, a scalar operand."""
    w = k.w
    if value.shape is Shape.AFFINE:
        kind, lane = SCALAR[value.dtype], last_lane(k)
        if kind == "i64" and not lane.isdigit():
            lane = w.pure("zext i32 {} to i64", lane)
        distance = w.pure(f"mul {kind} {{}}, {value.stride}", lane)
        value = k.uniform(value.dtype, w.pure(f"add {kind} {{}}, {{}}", value.operand, distance))
    bits = storable(k, element, value)
    if value.is_uniform:
        return bits
    return w.pure(f"extractelement {k.vector_type(bits_type(element))} {{}}, i32 {{}}", bits, last_lane(k))


def _uniform(k: Kernel, node: Store, index: Value, value: Value, element: ScalarType) -> None:
    ok = addressing.inside(k, node, index)
    if ok is False:
        return
    bits = last_bits(k, element, value)

    def write() -> None:
        address = addressing.element_address(k, node.buffer, index)
        k.w.line(f"store {bits_type(element)} {bits}, ptr {address}, align {element.size}")

    if isinstance(ok, str) and k.lanes == 1:
        branch(k, ok, write)
        return
    address = addressing.element_address(k, node.buffer, index)
    if ok is not True:
        assert isinstance(ok, str)
        address = k.w.pure("select i1 {}, ptr {}, ptr {}", ok, address, addressing.spare(k))
    k.w.line(f"store {bits_type(element)} {bits}, ptr {address}, align {element.size}")


# ---- consecutive elements
def _contiguous(k: Kernel, node: Store, index: Value, bits: str, element: ScalarType) -> None:
    """Writes W elements, for an index of stride 1 or -1."""
    run = Contiguous(k, node.buffer, index)
    kind, is_large = bits_type(element), addressing.is_large(k, node.buffer)
    bits_in_order = run.ordered(kind, bits)

    def whole(address: str) -> None:
        k.w.line(f"store {k.vector_type(kind)} {bits_in_order}, ptr {address}, align {element.size}")

    def parts(mask: str | None) -> None:
        if is_large:
            _scattered(k, node, index, bits, element)
        else:
            active = run.ordered("i1", mask) if mask is not None else "splat (i1 true)"
            masked_store(k, element, run.masked_address(), bits_in_order, active)

    if k.mask is None:
        if k.proven(node):
            whole(run.address())
        else:
            branch(k, run.fits(), lambda: whole(run.address()), lambda: parts(addressing.lanes_inside(k, node, index)))
        return
    if is_large:

        def masked() -> None:
            mask = run.ordered("i1", k.lane_mask())
            masked_store(k, element, run.address(), bits_in_order, mask)

        branch(k, run.fits(), masked, lambda: parts(None))
        return
    mask = k.both(k.mask, addressing.lanes_inside(k, node, index))
    assert mask is not None
    if masks_are_cheap(k, element):
        parts(mask)
    else:
        branch(k, k.every(mask), lambda: whole(run.masked_address()), lambda: parts(mask))


def masked_store(k: Kernel, element: ScalarType, address: str, bits: str, mask: str) -> None:
    """Writes consecutive elements in the lanes of a mask."""
    vector, mask_type = k.vector_type(bits_type(element)), k.vector_type("i1")
    call = intrinsic(k, "void", f"masked.store.v{k.lanes}{bits_type(element)}.p0", vector, "ptr", "i32", mask_type)
    k.w.line(f"{call}({vector} {bits}, ptr {address}, i32 {element.size}, {mask_type} {mask})")


# ---- elements anywhere
def _scattered(k: Kernel, node: Store, index: Value, bits: str, element: ScalarType) -> None:
    mask = k.both(k.mask, addressing.lanes_inside(k, node, index))
    numbers, kind = addressing.offsets(k, node.buffer, index)
    scatter(k, element, k.base(node.buffer), numbers, kind, bits, mask)


def scatter(k: Kernel, element: ScalarType, base: str, numbers: str, kind: str, bits: str, mask: str | None) -> None:
    """Writes the elements of these numbers (a vector of ``kind``) from an address on, ascending lanes of a mask."""
    if element.size < 4 and mask is not None:
        _scatter_narrow(k, element, base, numbers, kind, bits, mask)
        return
    number, mask_type = k.vector_type(kind), k.vector_type("i1")
    vector, pointers = k.vector_type(bits_type(element)), k.vector_type("ptr")
    addresses = k.w.here(f"getelementptr {bits_type(element)}, ptr {base}, {number} {numbers}")
    name = f"masked.scatter.v{k.lanes}{bits_type(element)}.v{k.lanes}p0"
    call = intrinsic(k, "void", name, vector, pointers, "i32", mask_type)
    active = mask if mask is not None else "splat (i1 true)"
    k.w.line(f"{call}({vector} {bits}, {pointers} {addresses}, i32 {element.size}, {mask_type} {active})")


def _scatter_narrow(k: Kernel, element: ScalarType, base: str, numbers: str, kind: str, bits: str, mask: str) -> None:
    """Stores one element after the other: no instruction scatters elements of one or two bytes."""
    index, value = Spilled(k, "index", kind, numbers), Spilled(k, "value", bits_type(element), bits)

    def one(lane: str) -> None:
        number = index.lane(lane)
        address = k.w.pure(f"getelementptr {bits_type(element)}, ptr {{}}, {kind} {{}}", base, number)
        k.w.line(f"store {bits_type(element)} {value.lane(lane)}, ptr {address}, align {element.size}")

    for_each_lane(k, mask, one)
