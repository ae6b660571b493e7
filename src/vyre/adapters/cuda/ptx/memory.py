"""Loads and stores: addresses, bounds, conversions.

Out of range a load gives zero and a store does nothing.  This takes one comparison and a predicate, unless the index is
proven to be in range.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.conversion import ACCESS, loaded, narrow, storable
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.memory_layout import ALIGNMENT
from vyre.adapters.cuda.ptx.operands import Address, Operand, Register, Symbol, Word, hexadecimal
from vyre.adapters.cuda.ptx.values import Value, copy_of, immediate, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF, MOVE
from vyre.domain.analysis.wide_access import WideAccess
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.program import Access
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import NARROW_TYPES, ScalarType

_S = ScalarType
_U32: Final = _S.U32
_IMMEDIATE_LIMIT: Final = 1 << 31
_UNROLLED: Final = 64
"""The bytes of local memory that one round of a loop zeroes."""
LARGEST_COUNT: Final = (1 << 32) - 1
"""The most elements of a buffer."""
SHARED_BASE: Final = Symbol("smem")


def push(k: Kernel, name: str) -> Value:
    """Returns a scalar kernel parameter, which is read once."""
    dtype = element_of(k.buffers[name])
    access = ACCESS[dtype]

    def make() -> Register:
        parameter = k.push_parameter(name)
        if k.end is not None:  # each job has its own
            return k.w.emit(access.kind, f"ld.global.{access.suffix}", Address(k.parameter_address(parameter)))
        return k.w.emit(access.kind, f"ld.param.{access.suffix}", Address(parameter))

    raw = k.w.once(f"push {name}", make)
    if dtype is _S.BOOL:
        return Value(k.w.once(f"push? {name}", lambda: k.w.emit("p", "setp.ne.u32", raw, 0)), dtype)
    return Value(raw, dtype)


class Certain(Enum):
    """A result of a bounds check that is known before the kernel runs."""

    INSIDE = "inside"
    OUTSIDE = "outside"


Guard: TypeAlias = Register | Certain
"""Whether an index is in range: known when the kernel is written, or a predicate."""
Reachable: TypeAlias = Register | Literal[Certain.INSIDE]
"""The guard of an access that may happen."""


def index_of(value: Value) -> Value:
    """Returns an index of any integer type; one that is known is a u32, unless no buffer has such an element."""
    if value.bits is None or value.dtype is _U32:
        return value
    number = value.bits
    if value.dtype.is_signed and number >> (value.dtype.bits - 1):
        return value
    return literal(_U32, number) if number <= LARGEST_COUNT else value


def in_range(k: Kernel, access: Load | Store | Atomic, index: Value) -> Guard:
    """Returns whether the index is in range.  If that is certain only under an assumption, the assumption is
    recorded.
    """
    buffer = k.buffers[access.buffer]
    if index.bits is not None:
        if index.dtype is not _U32:
            return Certain.OUTSIDE
        if buffer.count:
            return Certain.INSIDE if index.bits < buffer.count else Certain.OUTSIDE
    grounds = k.facts.proven(access)
    if grounds is not None and k.assumptions.make(*grounds):
        return Certain.INSIDE
    register = in_register(k.w, index)
    if index.dtype.bits == 64:  # a negative index is a large unsigned one
        return k.w.emit("p", "setp.lt.u64", register, _wide_length(k, access.buffer))
    length = _signed_length(k, access.buffer) if index.dtype.is_signed else k.length(access.buffer)
    return k.w.emit("p", "setp.lt.u32", register, length)


def _wide_length(k: Kernel, name: str) -> Word:
    """Returns the number of elements, in 64 bits."""
    length = k.length(name)
    if isinstance(length, int):
        return length
    return k.w.once(f"wide {length}", lambda: k.w.emit("rd", "cvt.u64.u32", length))


def _signed_length(k: Kernel, name: str) -> Word:
    """Returns the number of elements that an i32 can reach, so that a negative one is no index as a u32 either."""
    length, most = k.length(name), 1 << 31
    if isinstance(length, int):
        return min(length, most)

    def make() -> Register:
        reached = k.w.emit("p", "setp.lt.u32", length, hexadecimal(most))
        return k.w.emit("r", "selp.b32", length, hexadecimal(most), reached)

    return k.w.once(f"signed {length}", make)


def predicate(guard: Reachable) -> str:
    """Returns the prefix of an instruction that is skipped where the index is out of range."""
    return "" if guard is Certain.INSIDE else f"@{guard} "


def address(k: Kernel, name: str, index: Value) -> tuple[str, Address]:
    """Returns the state space and the address of an element."""
    buffer = k.buffers[name]
    size = element_of(buffer).size
    if buffer.is_workgroup:
        return "shared", _shared_address(k, name, index, size)
    if buffer.is_private:
        return "local", _private_address(k, name, index, size)
    if name in k.inlined:
        return "param", _inlined_address(k, name, index, size)
    base = k.base(name)
    if index.bits is not None and index.bits * size < _IMMEDIATE_LIMIT:
        return "global", Address(base, index.bits * size or None)
    return "global", _element(k, base, index, size)


def _element(k: Kernel, base: Register, index: Value, size: int) -> Address:
    """Returns the address of an element of an array at a 64-bit address."""
    register = in_register(k.w, index)
    if index.dtype.bits == 32:
        return Address(k.w.emit("rd", "mad.wide.u32", register, size, base))
    offset = register if size == 1 else k.w.emit("rd", "shl.b64", register, size.bit_length() - 1)
    return Address(k.w.emit("rd", "add.u64", base, offset))


def _in_word(k: Kernel, index: Value) -> Operand:
    """Returns an index of an area with 32-bit addresses."""
    if index.dtype.bits == 32:
        return index.operand
    return k.integers.fences.around(k.w, Fence.NARROWING, k.w.emit("r", "cvt.u32.u64", index.operand))


def _private_address(k: Kernel, name: str, index: Value, size: int) -> Address:
    base = k.private_arrays[name]
    if index.bits is not None:
        return Address(base, index.bits * size)
    start = k.w.once(f"private {base}", lambda: k.w.emit("r", "mov.u32", base))
    return Address(k.w.emit("r", "mad.lo.u32", _in_word(k, index), size, start))


def _shared_address(k: Kernel, name: str, index: Value, size: int) -> Address:
    offset = k.shared.offsets[name]
    base = shared_symbol(k)
    if index.bits is not None:
        return Address(base, offset + index.bits * size)
    start = k.w.once(f"shared {offset}", lambda: _shared_start(k, base, offset))
    return Address(k.w.emit("r", "mad.lo.u32", _in_word(k, index), size, start))


def _shared_start(k: Kernel, base: Symbol, offset: int) -> Register:
    start = k.w.emit("r", "mov.u32", base)
    return k.w.emit("r", "add.u32", start, offset) if offset else start


def shared_symbol(k: Kernel) -> Symbol:
    """Returns the name of the kernel's shared memory."""
    return Symbol(f"{k.w.entry}_{SHARED_BASE}") if k.shared.dynamic else SHARED_BASE


def _inlined_address(k: Kernel, name: str, index: Value, size: int) -> Address:
    parameter = k.uniform_parameter(name)
    if index.bits is not None:
        return Address(parameter, index.bits * size)
    base = k.w.once(f"&{parameter}", lambda: k.w.emit("rd", "mov.b64", parameter))
    return _element(k, base, index, size)


def load_space(k: Kernel, name: str, space: str) -> str:
    """Returns the state space of a load, with ``.nc`` if the launch certainly does not write the memory."""
    read_only = k.end is None and k.buffers[name].access in (Access.READ_ONLY, Access.UNIFORM)
    return "global.nc" if space == "global" and read_only and k.assumptions.make(Assumption.NOALIAS) else space


def load(k: Kernel, expr: Load, index: Value) -> Value:
    """Returns element ``index``, widened; zero if it is out of range."""
    w, element, index = k.w, element_of(k.buffers[expr.buffer]), index_of(index)
    wide = grouped(k, expr)
    if wide is not None:
        k.site_of(wide.group)[wide.lane] = expr.loc
        return loaded(w, element, _wide_load(k, expr.buffer, wide, index))
    guard = in_range(k, expr, index)
    if guard is Certain.OUTSIDE:
        return literal(element.widened, 0)
    if expr.buffer in k.facts.in_registers:
        return _kept_element(k, expr.buffer, element, index)
    w.mark((expr.loc,), expr.buffer)
    access = ACCESS[element]
    space, where = address(k, expr.buffer, index)
    operation = f"ld.{load_space(k, expr.buffer, space)}.{access.suffix}"
    if guard is Certain.INSIDE:
        return loaded(w, element, w.emit(access.kind, operation, where))
    raw = w.emit(access.kind, MOVE[access.kind], immediate(element, 0) if access.kind in ("f", "fd") else 0)
    w.line(f"@{guard} {operation} {raw}, {where};")
    return loaded(w, element, raw)


def store(k: Kernel, stmt: Store, index: Value, value: Value) -> None:
    """Writes one element; does nothing if the index is out of range."""
    element, index = element_of(k.buffers[stmt.buffer]), index_of(index)
    wide = grouped(k, stmt)
    if wide is not None:
        keep_for_wide_store(k, stmt, wide, value)
        _wide_store(k, stmt.buffer, wide, index)
        return
    guard = in_range(k, stmt, index)
    if guard is Certain.OUTSIDE:
        return
    if stmt.buffer in k.facts.in_registers:
        _keep_element(k, stmt.buffer, element, index, value)
        return
    k.w.mark((stmt.loc,), stmt.buffer)
    source = storable(k.w, element, value)
    space, where = address(k, stmt.buffer, index)
    operation = f"st.{space}.{ACCESS[element].suffix}".replace(".s8", ".u8").replace(".s16", ".u16")
    k.w.line(f"{predicate(guard)}{operation} {where}, {source};")


# ---- private buffers
def begin_private(k: Kernel) -> None:
    """Declares the private buffers of a lane, and zeroes those whose zeros the program could observe."""
    for name, nbytes in k.facts.private.arrays.items():
        k.private_arrays[name] = k.w.array(nbytes, ALIGNMENT)
    for name in k.facts.private_zeroed:
        _zero(k, k.private_arrays[name], k.facts.private.arrays[name])


def _zero(k: Kernel, array: Symbol, nbytes: int) -> None:
    w = k.w
    zero = w.emit("r", "mov.b32", 0)
    zeros, rest = f"{{{zero}, {zero}, {zero}, {zero}}}", nbytes % _UNROLLED
    if nbytes > 4 * _UNROLLED:
        pointer, again = w.emit("r", "mov.u32", array), w.label()
        end = w.emit("r", "add.u32", pointer, nbytes - rest)
        w.place(again)
        for offset in range(0, _UNROLLED, ALIGNMENT):
            w.line(f"st.local.v4.b32 [{pointer}+{offset}], {zeros};")
        w.line(f"add.u32 {pointer}, {pointer}, {_UNROLLED};")
        w.jump_if("lt.u32", pointer, end, again, uniform=True)
        first = nbytes - rest
    else:
        first = 0
    for offset in range(first, nbytes, ALIGNMENT):
        w.line(f"st.local.v4.b32 [{array}+{offset}], {zeros};")


def _element_register(k: Kernel, name: str, element: ScalarType, index: Value) -> Register:
    """Returns the register of an element, which is zero before the body."""
    assert index.bits is not None, "all indices of the buffer are known"
    dtype, kind = element.widened, CLASS_OF[element.widened]
    return k.w.once(f"{name}[{index.bits}]", lambda: k.w.emit(kind, MOVE[kind], immediate(dtype, 0)))


def _kept_element(k: Kernel, name: str, element: ScalarType, index: Value) -> Value:
    """Returns a copy, because a later store changes the register."""
    register = _element_register(k, name, element, index)
    return Value(copy_of(k.w, Value(register, element.widened)), element.widened)


def _keep_element(k: Kernel, name: str, element: ScalarType, index: Value, value: Value) -> None:
    """Puts the value that a load of the stored element gives into the element's register.

    A NaN keeps its bits, which nothing observes before they are made canonical.
    """
    if element in NARROW_TYPES:
        value = narrow(k.w, k.options.target, element, value)
    register = _element_register(k, name, element, index)
    k.w.line(f"{MOVE[CLASS_OF[value.dtype]]} {register}, {value.operand};")


# ---- groups
def grouped(k: Kernel, access: Load | Store) -> WideAccess | None:
    """Returns the group of accesses that ``access`` is combined with, and records the assumptions that this needs."""
    group = k.facts.wide(access)
    if group is not None:
        k.assumptions.make(*k.facts.rests_on(access))
    return group


def _wide_load(k: Kernel, name: str, wide: WideAccess, index: Value) -> Register:
    """Returns the register of a member; the first member of a group loads all of them."""
    members = k.wide_loads.get(id(wide.group))
    if members is None:
        k.w.mark(k.site_of(wide.group), name)
        access, width = ACCESS[element_of(k.buffers[name])], wide.group.width
        members = k.wide_loads[id(wide.group)] = [k.w.register(access.kind) for _ in range(width)]
        space, where = _group_address(k, name, wide, index)
        registers = ", ".join(members)
        k.w.line(f"ld.{load_space(k, name, space)}.v{width}.{access.suffix} {{{registers}}}, {where};")
    return members[wide.lane]


def keep_for_wide_store(k: Kernel, stmt: Store, wide: WideAccess, value: Value) -> None:
    """Converts a value of a group now; it is stored together with the last one."""
    k.site_of(wide.group)[wide.lane] = stmt.loc
    register = storable(k.w, element_of(k.buffers[stmt.buffer]), value)
    k.wide_stores.setdefault(id(wide.group), {})[wide.lane] = register


def _wide_store(k: Kernel, name: str, wide: WideAccess, index: Value) -> None:
    k.w.mark(k.site_of(wide.group), name)
    access, kept = ACCESS[element_of(k.buffers[name])], k.wide_stores.pop(id(wide.group))
    space, where = _group_address(k, name, wide, index)
    registers = ", ".join(kept[lane] for lane in range(wide.group.width))
    k.w.line(f"st.{space}.v{wide.group.width}.{access.suffix} {where}, {{{registers}}};")


def _group_address(k: Kernel, name: str, wide: WideAccess, index: Value) -> tuple[str, Address]:
    """Returns the address of the first element of a group, from the index of one of its members."""
    if index.bits is not None:
        return address(k, name, literal(_U32, index.bits - wide.lane))
    space, where = address(k, name, index)
    back = wide.lane * element_of(k.buffers[name]).size
    return space, where._replace(offset=-back) if back else where
