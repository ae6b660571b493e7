"""Lines of emitted text are traced back to what they were written for."""

from __future__ import annotations

import re

import pytest

from vyre.adapters.cuda.ptx.emit import emit, sites
from vyre.adapters.cuda.ptx.kernel import Assumption, ParameterKind
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.cuda.ptx.sites import NOWHERE
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Store, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.gallery.registry import BASICS, load

_ACCESS = re.compile(r"\s(?:@!?%p\d+ )?(ld|st|atom|red)\.(?:[\w:]+\.)*?(global|shared)\.")
WAYS = {
    "usual": DEFAULT_OPTIONS,
    "split": EmitOptions(native_grid_sync=False),
    "table": EmitOptions(pointer_table=True),
    "everything assumed": EmitOptions(assume=frozenset(Assumption)),
}
_KINDS = {"ld": (Load, Atomic), "st": (Store,), "atom": (Atomic,), "red": (Atomic,)}
_OWN = (ParameterKind.BARRIER, ParameterKind.TRAP)
_TABLE = re.compile(r"^\.(global|const) ", re.MULTILINE)


def written(program: Program) -> set[tuple[type, str, object]]:
    """(class, buffer, location) of every access of a program."""
    found: set[tuple[type, str, object]] = set()
    for stmt in walk_statements(program.body):
        nodes = [stmt, *unique_nodes(operands(stmt))]
        found |= {(type(n), n.buffer, n.loc) for n in nodes if isinstance(n, Load | Store | Atomic)}
        if isinstance(stmt, AsyncLoad | AsyncStore):
            found |= {(Load, stmt.source, stmt.loc), (Store, stmt.destination, stmt.loc)}
    return found


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("module", BASICS)
def test_every_access_is_traced_to_one_that_the_user_wrote(module: str, options: EmitOptions) -> None:
    program = load(f"basics.{module}").program()
    text, known, traced = emit(program, options), sites(program, options), written(program)
    assert known.keys() == {kernel.entry for kernel in text.kernels}
    lines, seen = text.ptx.split("\n"), 0
    for kernel in text.kernels:
        found = known[kernel.entry]
        first = next(n for n, line in enumerate(lines, 1) if f".entry {kernel.entry}(" in line)
        last = next(n for n, line in enumerate(lines, 1) if n > first and line == "}")
        own = _TABLE.search(text.ptx) is not None or any(p.kind in _OWN for p in kernel.parameters)
        for number in range(first, last):
            access, site = _ACCESS.match(lines[number - 1]), found.at(number)
            if access is None or site is NOWHERE:
                continue
            if site.buffer is not None:
                for loc in site.locs:
                    assert {(kind, site.buffer, loc) for kind in _KINDS[access[1]]} & traced, lines[number - 1]
                seen += 1
            elif not own:
                assert any(loc == site.locs[0] for _, _, loc in traced), lines[number - 1]
        assert found.at(first) is NOWHERE
        assert found.lines == tuple(sorted(found.lines))
    assert seen or not traced
