"""The text of one kernel while it is written: registers, labels, prologue, body.

Integer registers are typeless by width (``%r`` 32, ``%rd`` 64 bits); floats and predicates have classes of their own.
Registers are counted, and declared at the end.  Values that every lane needs once (special registers, parameters,
addresses) are computed in the prologue, which dominates the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.ptx.operands import Operand, Register, Symbol, register, registers
from vyre.adapters.cuda.ptx.sites import Site
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from vyre.domain.source_location import SourceLocation

_S = ScalarType
CLASS_OF: Final[dict[ScalarType, str]] = {
    _S.U32: "r",
    _S.I32: "r",
    _S.U64: "rd",
    _S.I64: "rd",
    _S.F32: "f",
    _S.F64: "fd",
    _S.BOOL: "p",
}
_DECLARED: Final = {"p": ".pred", "h": ".b16", "r": ".b32", "rd": ".b64", "f": ".f32", "fd": ".f64"}
MOVE: Final = {"p": "mov.pred", "h": "mov.b16", "r": "mov.b32", "rd": "mov.b64", "f": "mov.f32", "fd": "mov.f64"}
_MOST_LINE: Final = 0xFFFF_FFFF


class Writer:
    """Collects the lines of a kernel.

    Lines are PTX statements without indentation; ``line`` appends to the current list (body or prologue).  ``traced``:
    whether the sites of lines are recorded.  ``files``: the numbers of the user's files, by name, which the writer adds
    to as it writes ``.loc`` lines; None: it writes none.
    """

    def __init__(self, entry: str, *, traced: bool = False, files: dict[str, int] | None = None) -> None:
        self.entry: Final = entry
        self.traced: Final = traced
        self.files: Final = files
        self._written = ""
        self.body: Final[list[str]] = []
        self.prologue: Final[list[str]] = []
        self.module_scope: Final[list[str]] = []
        self.line: Callable[[str], None] = self.body.append
        self.arrays: Final[list[str]] = []
        self.marks: Final[list[tuple[int, Site]]] = []
        """Sites, each with the number of body lines before it."""
        self._counts = dict.fromkeys(_DECLARED, 0)
        self._names = {kind: registers(kind) for kind in _DECLARED}
        self._labels = 0
        self._once: dict[str, Register] = {}
        self.computes_halves: bool = False
        """Whether an instruction of f16 or bf16 has taken the place of some of f32."""

    def mark(self, locs: Sequence[SourceLocation | None], buffer: str | None = None) -> None:
        """Records that the next lines of the body are written for a site, if sites are recorded, or says so there."""
        if self.traced:
            self.marks.append((len(self.body), Site(locs, buffer)))
        if self.files is not None and (loc := next(filter(None, locs), None)) is not None:
            self._locate(self.files, loc)

    def _locate(self, files: dict[str, int], loc: SourceLocation) -> None:
        if loc.file and 0 < loc.line <= _MOST_LINE:
            number = files.setdefault(loc.file, len(files) + 1)
            line = f".loc {number} {loc.line} {min(loc.column or 0, _MOST_LINE)}"
            if line != self._written:
                self.body.append(line)
                self._written = line

    def register(self, kind: str) -> Register:
        """Returns a new register of a class: p h r rd f fd."""
        number = self._counts[kind]
        self._counts[kind] = number + 1
        return register(kind, number)

    def emit(self, kind: str, operation: str, *operands: Operand) -> Register:
        """Writes ``operation`` with a new register of class ``kind`` as its result, and returns the register."""
        number = self._counts[kind]
        self._counts[kind] = number + 1
        names = self._names[kind]
        result = names[number] if number < len(names) else self._named(kind, number)
        try:
            text = ", ".join(operands)  # type: ignore[arg-type]  # most are strings
        except TypeError:
            text = ", ".join(map(str, operands))
        self.line(f"{operation} " + result + ", " + text + ";")
        return result

    def jump_if(self, test: str, left: Operand, right: Operand, label: str, *, uniform: bool = False) -> None:
        """Writes a jump of the lanes for which ``setp`` with this test and type holds; ``uniform``: of all or none."""
        self.line(f"@{self.emit('p', f'setp.{test}', left, right)} bra{'.uni' if uniform else ''} {label};")

    def _named(self, kind: str, number: int) -> Register:
        """Returns a register beyond those whose names the writer has, and gets it more of them."""
        result = register(kind, number)
        self._names[kind] = registers(kind)
        return result

    def label(self) -> str:
        """Returns a new label; place it with ``place``."""
        self._labels += 1
        return f"$L{self._labels}"

    def place(self, label: str) -> None:
        """Writes a label."""
        self.line(f"{label}:")

    def once(self, key: str, make: Callable[[], Register]) -> Register:
        """Returns the register that ``make`` returned for ``key``; the first call writes it to the prologue."""
        written = self._once.get(key)
        if written is None:
            outer, self.line = self.line, self.prologue.append
            try:
                written = self._once[key] = make()
            finally:
                self.line = outer
        return written

    def local_array(self, nbytes: int) -> Register:
        """Returns a register with the address of an array in local memory, for ``ld.local`` and ``st.local``."""
        name = self.array(nbytes, 8)
        return self.once(name, lambda: self.emit("rd", "mov.u64", name))

    def array(self, nbytes: int, align: int) -> Symbol:
        """Declares an array in local memory, at a multiple of ``align`` bytes, and returns its name."""
        name = Symbol(f"local{len(self.arrays)}")
        self.arrays.append(f".local .align {align} .b8 {name}[{nbytes}];")
        return name

    def special(self, name: str) -> Register:
        """Returns a special register such as ``%tid.x``, which is read once."""
        return self.once(name, lambda: self.emit("r", "mov.u32", Register(name)))

    def declarations(self) -> list[str]:
        """Returns the declarations of all registers in use."""
        return [f".reg {_DECLARED[kind]} %{kind}<{count}>;" for kind, count in self._counts.items() if count]
