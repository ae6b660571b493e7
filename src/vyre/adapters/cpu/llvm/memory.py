"""Loads and stores of every kind of memory, and the scratch memory that workgroup and private buffers live in."""

from __future__ import annotations

from vyre.adapters.cpu.llvm import loads, private, stores
from vyre.adapters.cpu.llvm.blocks import intrinsic
from vyre.adapters.cpu.llvm.context import ALIGNMENT, Kernel
from vyre.adapters.cpu.llvm.values import Value
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.private_zeroing import needs_private_zeroing
from vyre.domain.analysis.shared_zeroing import needs_zeroing
from vyre.domain.ir.expr import Load
from vyre.domain.ir.stmt import Store


def load(k: Kernel, node: Load, index: Value) -> Value:
    """Returns element ``index`` of a buffer, widened; zero in lanes where it is out of range.

    The result is uniform if the index is, except for private memory.
    """
    if k.buffers[node.buffer].is_private:
        return private.load(k, node, index)
    return loads.load(k, node, index)


def store(k: Kernel, node: Store, index: Value, value: Value) -> None:
    """Writes element ``index`` of a buffer in the active lanes, ascending; does nothing where it is out of range."""
    if k.buffers[node.buffer].is_private:
        private.store(k, node, index, value)
    else:
        stores.store(k, node, index, value)


def reserve(k: Kernel) -> None:
    """Reserves scratch memory for the workgroup and private buffers; called once, before anything is written."""
    for buffer in k.program.buffers:
        if buffer.is_workgroup:
            assert buffer.static_nbytes is not None, "validated"
            k.place(buffer.name, buffer.static_nbytes)
    private.reserve(k)


def zero_shared(k: Kernel) -> None:
    """Zeroes the workgroup buffers whose zeros the program could observe; called where a workgroup starts."""
    for name in sorted(needs_zeroing(k.program, bounds_facts(k.program, same_length=True))):
        fill = intrinsic(k, "void", "memset.p0.i64", "ptr", "i8", "i64", "i1")
        nbytes = k.buffers[name].static_nbytes
        k.w.line(f"{fill}(ptr align {ALIGNMENT} {k.base(name)}, i8 0, i64 {nbytes}, i1 false)")


def zeroes_private(k: Kernel) -> bool:
    """Returns whether there is a private buffer whose zeros the program could observe."""
    return bool(_exposed(k))


def zero_private(k: Kernel) -> None:
    """Zeroes the private buffers whose zeros the program could observe; called where a vector of lanes starts."""
    private.zero(k, _exposed(k))


def _exposed(k: Kernel) -> frozenset[str]:
    return needs_private_zeroing(k.program, bounds_facts(k.program, same_length=True))
