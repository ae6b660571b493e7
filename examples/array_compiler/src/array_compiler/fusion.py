"""Which values become arrays, and which kernels compute them.

A kernel computes one value that looks at many elements (a reduction, a scan, a histogram, a matrix product), or the
elements of any number of arrays of one shape.  Elementwise chains are computed where they are used, and are no arrays:
before a reduction as well, and a stencil is one kernel, since its shifts read one array.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from array_compiler.shapes import REDUCTIONS, Checked, Node, Shape

MANY: Final = ("scan", "histogram", "@", *REDUCTIONS)  # what has a kernel of its own
READ_ANYWHERE: Final = (
    "@",
    "shift",
    "transpose",
)  # what reads elements other than its own, so that operands are arrays
_DEEPEST: Final = 40
_MOST_OUTPUTS: Final = 16


@dataclass(slots=True)
class Group:
    """A kernel to be: the arrays that it writes, by name, and what they hold.  ``op`` is one of ``MANY``, or empty."""

    op: str
    shape: Shape
    outputs: dict[str, Node]


def fuse(checked: Checked) -> tuple[list[Group], dict[Node, str]]:
    """The kernels of a step in their order, and the values that are arrays, with their names."""
    wanted = [*checked.outputs.items(), *((f"_next_{name}", node) for name, node in checked.following.items())]
    order = _ordered(node for _, node in wanted)
    arrays = {node: node.name for node in order if node.op == "source"}
    for name, node in wanted:
        arrays.setdefault(node, name)
    depths, read = dict[Node, int](), dict[Node, frozenset[str]]()
    for index, node in enumerate(order):
        depths[node] = 1 + max((0 if each in arrays else depths[each] for each in node.inputs), default=0)
        if node.op in MANY or depths[node] > _DEEPEST:
            arrays.setdefault(node, f"_value_{index}")
        for each in node.inputs if node.op in READ_ANYWHERE else ():
            arrays.setdefault(each, f"_value_{order.index(each)}")

    groups, written_by = list[Group](), dict[str, int]()
    for node in order:
        read[node] = frozenset[str]().union(*({arrays[x]} if x in arrays else read[x] for x in node.inputs))
        if node in arrays and node.op != "source":
            earliest = 1 + max((written_by.get(name, -1) for name in read[node]), default=-1)
            written_by[arrays[node]] = _placed(arrays[node], node, groups, earliest)
    for name, node in ((name, node) for name, node in wanted if arrays[node] != name):
        _placed(name, node, groups, 1 + written_by.get(arrays[node], -1))
    first = len(groups)
    for name, node in checked.following.items():
        _placed(name, Node("source", (), node.dtype, node.shape, node.place, name=f"_next_{name}"), groups, first)
    return groups, arrays


def _placed(name: str, node: Node, groups: list[Group], earliest: int) -> int:
    """Adds an array to the last kernel that can write it, or to a new one; returns the index of the kernel."""
    op = node.op if node.op in MANY else ""
    for index in reversed(range(earliest, len(groups))):
        group = groups[index]
        if not op and not group.op and group.shape == node.shape and len(group.outputs) < _MOST_OUTPUTS:
            group.outputs[name] = node
            return index
    groups.append(Group(op, node.shape, {name: node}))
    return len(groups) - 1


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    """All nodes, each behind its operands."""
    seen, order = set[Node](), list[Node]()
    waiting = [(node, False) for node in nodes][::-1]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting += [(node, True), *((each, False) for each in reversed(node.inputs))]
    return order
