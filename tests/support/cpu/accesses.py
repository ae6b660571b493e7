"""Single accesses to memory of the LLVM emitter: each is written as a function of its own, compiled and called.

A function ``void NAME(ptr frame, i64 mask, ptr lanes, ptr scratch)`` makes one access in the lanes of ``mask``.
``lanes`` has five tables of 32 words of 64 bits: the indices, the values, the expected values, the results, and the
number of the vector of lanes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from support.cpu.kernels import features_for
from vyre.adapters.cpu.llvm import atomics, memory
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value, literal
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.cpu.native.loading import load
from vyre.domain.ir.expr import Atomic, Literal, Load
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Barrier, Store
from vyre.domain.ir.types import ScalarType

TABLE: Final = 32 * 8
INDEX, VALUE, EXPECTED, RESULT, CHUNK = (i * TABLE for i in range(5))
NAME: Final = "b"
ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)
_ZERO: Final = Literal(ScalarType.U32, 0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One access, as it is written.

    ``stride`` is that of an affine index, 0 for a uniform one, None for any other.  ``number`` is a constant index.
    ``count`` is the static number of elements, 0 if it is known only at run time.  ``op`` makes it an atomic.
    """

    element: ScalarType
    index: ScalarType = ScalarType.U32
    stride: int | None = 1
    number: int | None = None
    value: int | None = None
    """The stride of the value, as for the index."""
    masked: bool = True
    proven: bool = False
    access: Access = Access.READ_WRITE
    count: int = 0
    is_store: bool = False
    op: AtomicOp | None = None
    used: bool = True
    exclusive: bool = False
    wide: bool = False
    predicated: bool = True
    areas: int = 0
    """The number of vectors of lanes that have private memory of their own; 0: they share it."""

    @property
    def program(self) -> Program:
        """Returns a program with the buffer, and a barrier if ``areas`` says so."""
        buffer = Buffer.make(NAME, 0, self.access, self.element, self.count)
        return Program((buffer,), (1, 1, 1), (Barrier(),) if self.areas else ())


class _Kernel(Kernel):
    def __init__(self, case: Case, lanes: int) -> None:
        options = EmitOptions(lanes=lanes, exclusive=case.exclusive, wide=case.wide, predicated=case.predicated)
        program = case.program
        super().__init__(Program(program.buffers, (lanes * max(1, case.areas), 1, 1), program.body), options, {}, lanes)
        self._is_proven = case.proven

    def proven(self, access: Load | Store | Atomic) -> bool:
        """Returns what the case says."""
        return self._is_proven


def _table(k: Kernel, table: int, dtype: ScalarType, stride: int | None) -> Value:
    """Returns the operand in a table: as a vector, or by its first lane."""
    w, kind = k.w, SCALAR[dtype]
    place = w.here(f"getelementptr i8, ptr %lanes, i64 {table}")
    wide, narrow, words = "i64", f"i{1 if dtype is ScalarType.BOOL else dtype.bits}", kind
    if stride is None:
        wide, narrow, words = (k.vector_type(t) for t in (wide, narrow, words))
    bits = w.here(f"load {wide}, ptr {place}, align 8")
    if wide != narrow:
        bits = w.here(f"trunc {wide} {bits} to {narrow}")
    if narrow != words:
        bits = w.here(f"bitcast {narrow} {bits} to {words}")
    if stride is None:
        return k.varying(dtype, bits)
    return k.affine(dtype, bits, stride) if stride else k.uniform(dtype, bits)


def _put(k: Kernel, result: Value) -> None:
    w, kind, bits = k.w, k.vector_type(SCALAR[result.dtype]), result.dtype.bits
    operand = k.vector(result)
    narrow = k.vector_type(f"i{1 if result.dtype is ScalarType.BOOL else bits}")
    if narrow != kind:
        operand = w.here(f"bitcast {kind} {operand} to {narrow}")
    if narrow != k.vector_type("i64"):
        operand = w.here(f"zext {narrow} {operand} to {k.vector_type('i64')}")
    place = w.here(f"getelementptr i8, ptr %lanes, i64 {RESULT}")
    w.line(f"store {k.vector_type('i64')} {operand}, ptr {place}, align 8")


def write(case: Case, name: str, lanes: int) -> tuple[str, list[str], int]:
    """Returns the text of a function, the lines of its module and the bytes of scratch memory that it needs."""
    k = _Kernel(case, lanes)
    w = k.w
    memory.reserve(k)
    if case.masked:
        bits = w.at_entry(f"trunc i64 %mask to i{lanes}")
        k.mask = w.at_entry(f"bitcast i{lanes} {bits} to {k.vector_type('i1')}")
    k.chunk = w.at_entry("load i64, ptr %chunks") if case.areas else "0"
    index = _table(k, INDEX, case.index, case.stride)
    if case.number is not None:
        index = literal(case.index, case.number)
    dtype = case.element.widened
    if case.op is not None:
        compares = case.op is AtomicOp.COMPARE_EXCHANGE
        node = Atomic(case.op, NAME, _ZERO, _ZERO if compares else None, _ZERO)
        expected = _table(k, EXPECTED, dtype, case.value) if compares else None
        value = _table(k, VALUE, dtype, case.value)
        _put(k, atomics.atomic(k, node, index, expected, value, used=case.used))
    elif case.is_store:
        memory.store(k, Store(NAME, _ZERO, _ZERO), index, _table(k, VALUE, dtype, case.value))
    else:
        result = memory.load(k, Load(NAME, _ZERO), index)
        assert result.dtype is dtype
        assert case.access is Access.PRIVATE or (result.shape is Shape.UNIFORM) == (case.stride == 0)
        _put(k, result)
    body = w.text().replace("entry:", "", 1)
    chunks = f"  %chunks = getelementptr i8, ptr %lanes, i64 {CHUNK}\n"
    header = f"define void @{name}(ptr %frame, i64 %mask, ptr %lanes, ptr %scratch) nounwind"
    return f"{header} {{\nentry:\n{chunks}{body}\n  ret void\n}}\n", list(w.module), k.scratch.nbytes


@dataclass
class Accesses:
    """The compiled functions of some cases, for vectors of ``lanes`` lanes."""

    cases: Sequence[Case]
    lanes: int
    effort: Effort = Effort.LIGHT
    features: CpuFeatures | None = None
    text: str = field(init=False)

    def __post_init__(self) -> None:
        written = [write(case, f"access{number}", self.lanes) for number, case in enumerate(self.cases)]
        module = dict.fromkeys(line for _, lines, _ in written for line in lines)
        self.text = "\n".join([*module, *(text for text, _, _ in written)])
        features = self.features or features_for(self.lanes)
        self._code = load(compile_object(self.text, features, self.effort))
        most = max(nbytes for _, _, nbytes in written)
        self._scratch = ctypes.create_string_buffer(most + 64)
        start = ctypes.addressof(self._scratch)
        self.scratch: int = start + -start % 64
        self.scratch_nbytes: int = most
        self._lanes = ctypes.create_string_buffer(5 * TABLE)

    def run(
        self,
        number: int,
        frame: Sequence[int],
        mask: int,
        indices: Sequence[int],
        values: Sequence[int] = (),
        expected: Sequence[int] = (),
        chunk: int = 0,
    ) -> list[int]:
        """Makes one access; returns the results of all lanes.  ``frame`` is the address and the element count."""
        tables = self._lanes
        for table, words in ((INDEX, indices), (VALUE, values), (EXPECTED, expected), (CHUNK, (chunk,))):
            for lane, word in enumerate(words):
                ctypes.c_uint64.from_buffer(tables, table + 8 * lane).value = word
        head = (ctypes.c_uint64 * 8)(0, 0, 0, 0, 0, 0, *frame)
        ENTRY(self._code.addresses[f"access{number}"])(head, mask, tables, self.scratch)
        return [ctypes.c_uint64.from_buffer(tables, RESULT + 8 * lane).value for lane in range(self.lanes)]

    def close(self) -> None:
        """Unmaps the code."""
        self._code.close()
