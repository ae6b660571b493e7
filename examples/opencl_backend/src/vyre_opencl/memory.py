"""Loads, stores, atomics and asynchronous copies, all of which may be given an index that no element has."""

from __future__ import annotations

from typing import Final

from vyre.ir import AsyncLoad, AsyncStore, AsyncWait, AtomicOp, Literal, ScalarType, walk_statements
from vyre_opencl.types import VALUE, Value, from_element, literal, to_element
from vyre_opencl.writer import Copies, Place, Writer, unsupported

CAPTURED_LIMIT: Final = 16_384
"""The number of bytes that a lane may keep for one asynchronous copy."""
_ATOMICS: Final = {
    AtomicOp.ADD: "add",
    AtomicOp.OR: "or",
    AtomicOp.AND: "and",
    AtomicOp.XOR: "xor",
    AtomicOp.MIN: "min",
    AtomicOp.MAX: "max",
    AtomicOp.EXCHANGE: "xchg",
}


def _checked(w: Writer, place: Place, index: Value) -> tuple[str, str]:
    """Returns the index in 64 bits, and the condition under which it names an element."""
    wide = "(ulong)(long)" if index.dtype.is_signed else "(ulong)"
    at = w.keep(f"{wide}{index.text}", ScalarType.U64).text
    return at, f"{at} < {place.count}"


def load(w: Writer, place: Place, index: Value) -> Value:
    """Reads an element, 0 where there is none."""
    at, inside = _checked(w, place, index)
    dtype = place.element.widened
    zero = literal(Literal(dtype, 0))
    return w.keep(f"{inside} ? {from_element(place.element, f'{place.name}[{at}]')} : {zero}", dtype)


def store(w: Writer, place: Place, index: Value, value: Value) -> None:
    """Writes an element, nothing where there is none."""
    at, inside = _checked(w, place, index)
    w.line(f"if ({inside}) {place.name}[{at}] = {to_element(place.element, value.text)};")


def atomic(w: Writer, op: AtomicOp, place: Place, index: Value, expected: Value | None, value: Value) -> Value:
    """Changes an element and returns its old value; 0 where there is none."""
    at, inside = _checked(w, place, index)
    prefix = "atom" if place.element is ScalarType.U64 else "atomic"
    pointer = f"({place.pointer})&{place.name}[{at}]"
    old = w.keep("0", place.element)
    w.line(f"if ({inside}) {{")
    if op is AtomicOp.COMPARE_EXCHANGE:
        assert expected is not None, "validated"
        w.line(f"{old.text} = {prefix}_cmpxchg({pointer}, {expected.text}, {value.text});")
    elif op is AtomicOp.FETCH_NAND:
        kind, seen = VALUE[place.element], w.name("t")
        w.line(f"{kind} {seen};")
        w.line(f"do {{ {seen} = {old.text};")
        w.line(f"{old.text} = {prefix}_cmpxchg({pointer}, {seen}, ({kind})~({seen} & {value.text}));")
        w.line(f"}} while ({old.text} != {seen});")
    else:
        w.line(f"{old.text} = {prefix}_{_ATOMICS[op]}({pointer}, {value.text});")
    w.line("}")
    return old


# ---------------------------------------------------------------- asynchronous copies
def issue(w: Writer, stmt: AsyncLoad | AsyncStore, offset: Value, size: Value) -> None:
    """Captures the bytes of a copy in memory of the lane, clipped to its destination."""
    copies = _copies(w, stmt.tag)
    site, _ = copies.started[id(stmt)]
    source, destination = w.places[stmt.source], w.places[stmt.destination]
    prefix = f"a{copies.number}_{site}"
    room = w.keep(_nbytes(destination), ScalarType.U64).text
    start = w.keep(f"(ulong){offset.text}", ScalarType.U64).text
    if isinstance(stmt, AsyncStore):
        room = w.keep(f"{start} < {room} ? {room} - {start} : 0ul", ScalarType.U64).text
        read, write = "0ul", start
    else:
        read, write = start, "0ul"
    w.line(f"{prefix}_start = {write};")
    w.line(f"{prefix}_size = min((ulong){size.text}, {room});")
    w.line(f"for (ulong k = 0; k < {prefix}_size; k++)")
    w.line(f"{prefix}[k] = {read} + k < {_nbytes(source)} ? (({_bytes(source)}){source.name})[{read} + k] : (uchar)0;")
    w.line(f"a{copies.number} = {site};")


def wait(w: Writer, stmt: AsyncWait) -> None:
    """Writes the bytes that were captured under a tag."""
    copies = _copies(w, stmt.tag)
    for site, started in copies.started.values():
        place, prefix = w.places[started.destination], f"a{copies.number}_{site}"
        w.line(f"if (a{copies.number} == {site})")
        w.line(f"for (ulong k = 0; k < {prefix}_size; k++)")
        w.line(f"(({_bytes(place)}){place.name})[{prefix}_start + k] = {prefix}[k];")


def _copies(w: Writer, tag: str) -> Copies:
    found = w.copies.get(tag)
    if found is None:
        stmts = [
            stmt
            for stmt in walk_statements(w.program.body)
            if isinstance(stmt, AsyncLoad | AsyncStore) and stmt.tag == tag
        ]
        found = w.copies[tag] = Copies(len(w.copies), {id(stmt): (site, stmt) for site, stmt in enumerate(stmts)})
        w.top.append(f"int a{found.number} = -1;")
        for site, stmt in found.started.values():
            name = f"a{found.number}_{site}"
            most = _most(w, stmt)
            w.captured_nbytes += most
            w.top.append(f"ulong {name}_start = 0, {name}_size = 0; uchar {name}[{most}];")
    return found


def _most(w: Writer, stmt: AsyncLoad | AsyncStore) -> int:
    """Returns the number of bytes that a copy may capture at most."""
    static = w.places[stmt.destination].buffer.static_nbytes
    sizes = [stmt.size.bits if isinstance(stmt.size, Literal) else None, static]
    most = min((size for size in sizes if size is not None), default=CAPTURED_LIMIT + 1)
    if most > CAPTURED_LIMIT:
        raise unsupported(
            f"an asynchronous copy of more than {CAPTURED_LIMIT} bytes a lane",
            "give a smaller size as a literal, or a destination with a static count.",
        )
    return max(1, most)


def _nbytes(place: Place) -> str:
    return f"((ulong){place.count} * {place.element.size})"


def _bytes(place: Place) -> str:
    constant = "const " if place.space == "__global" and not place.buffer.is_writable else ""
    return f"{place.space} {constant}uchar*"
