"""Small evidence bundles, with a repository that is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from vyre.adapters.evidence_files import encode
from vyre.app.evidence.provenance import empty_evidence
from vyre.app.evidence.writing import write_bundle
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.evidence.provenance import SourceFile, WorkingTree
from vyre.domain.evidence.records import Evidence, Measurement, Side, SpeedClaim
from vyre.domain.ir.program import Program
from vyre.testing.execution import execute, open_backend

TREE: Final = WorkingTree(
    commit="1" * 40,
    branch="main",
    parent="2" * 40,
    committed_at="2026-01-02T03:04:05+00:00",
    status=b"",
    diff=b"",
    untracked=(),
    files=(SourceFile("__init__.py", b"pass\n"),),
)


class FakeRepository:
    """A ``SourceRepository`` that says what it was told."""

    def __init__(self, tree: WorkingTree | None = TREE) -> None:
        self._tree = tree

    def working_tree(self) -> WorkingTree | None:
        return self._tree


def scale() -> Program:
    """y = a * x + y, on u32."""
    with vyre.ProgramBuilder("scale", workgroup=4) as p:
        x, y = p.input("x", vyre.u32), p.inout("y", vyre.u32)
        a = p.param("a", vyre.u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


INPUTS: Final[Mapping[str, bytes]] = {"a": words(3), "x": words(1, 2, 3, 4, 5), "y": words(10, 20, 30, 40, 50)}


def write(
    path: Path, *, backend: str = "reference", config: DispatchConfig = DEFAULT_CONFIG, **options: Any
) -> Evidence:
    """Writes the evidence of one run of ``scale``."""
    opened, program = open_backend(backend), scale()
    got = execute(opened, program, INPUTS, config)
    chosen: dict[str, Any] = {"repository": FakeRepository(), "got": got} | options
    return write_bundle(path, program, INPUTS, config=config, backend=opened, **chosen)


def trapping() -> Program:
    """y = x, but an element of 7 or more is a trap that tells it."""
    with vyre.ProgramBuilder("trapping", workgroup=4) as p:
        x, y = p.input("x", vyre.u32), p.inout("y", vyre.u32)
        i = p.global_id()
        with p.if_(i < x.length):
            with p.if_(x[i] >= 7):
                p.trap(x[i], "too large")
            y[i] = x[i]
    return p.build()


def looping() -> Program:
    """Lane i takes x[i] loop steps."""
    with vyre.ProgramBuilder("looping", workgroup=4) as p:
        x, y = p.input("x", vyre.u32), p.output("y", vyre.u32, like="x")
        i = p.global_id()
        with p.if_(i < x.length), p.for_(0, x[i]) as j:
            y[i] = j
    return p.build()


def racy() -> Program:
    """All lanes store different values to two elements."""
    with vyre.ProgramBuilder("racy", workgroup=4) as p:
        y = p.output("y", vyre.u32, 2)
        y[p.global_id() % 2] = p.global_id()
    return p.build()


TRAPPING_INPUTS: Final[Mapping[str, bytes]] = {"x": words(1, 9, 2, 8), "y": words(0, 0, 0, 0)}


def write_failed(path: Path, backend: str = "reference") -> Evidence:
    """Writes the evidence of a run that ends in a trap."""
    with vyre.open(backend) as session:
        return session.write_evidence(path, trapping(), TRAPPING_INPUTS)


def write_resident(path: Path, backend: str = "reference") -> Evidence:
    """Writes the evidence of ``scale`` on parts of resident memory, which begin behind 12 and 4 bytes of others."""
    with vyre.open(backend) as session:
        x, y = (session.resident(words(*padding) + INPUTS[name]) for name, padding in (("x", (7, 7, 7)), ("y", (7,))))
        given: dict[str, Any] = {"a": 3, "x": x.view(3, 5, vyre.u32), "y": y.view(1, 5, vyre.u32)}
        return session.write_evidence(path, scale(), given)


def stepped(limit: int = 3) -> tuple[Program, Program]:
    """y = x + 1 for all, and x = y with ``changed`` set while an element is below ``limit``."""
    with vyre.ProgramBuilder("increased", workgroup=4) as p:
        x, y = p.input("x", vyre.u32), p.inout("y", vyre.u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] + 1
    with vyre.ProgramBuilder("taken_over", workgroup=4) as q:
        y, x, changed = q.input("y", vyre.u32), q.inout("x", vyre.u32), q.inout("changed", vyre.u32)
        i = q.global_id()
        with q.if_(i < y.length):
            x[i] = y[i]
            with q.if_(y[i] < limit):
                changed[0] = 1
    return p.build(), q.build()


def write_work(path: Path, backend: str = "reference") -> Evidence:
    """Writes the evidence of a fixed point on parts of memory, with host data, a temporary array and a first step."""
    increased, taken_over = stepped()
    with vyre.open(backend) as session:
        x, y = session.resident(np.arange(9, dtype=np.uint32), label="x"), session.temporary(vyre.u32, 4)
        flag = session.resident(np.full(3, 7, np.uint32))
        steps = [
            vyre.Step(increased, {"x": x[1:5], "y": y}),
            vyre.Step(taken_over, {"y": y, "x": x[1:5], "changed": flag[1:2]}),
        ]
        first = [vyre.Step(scale(), {"a": 0, "x": INPUTS["x"][:16], "y": x[1:5]})]
        return session.fixpoint(steps, first=first, changed=flag[1:2], limit=8).write_evidence(path)


def measured(*claims: SpeedClaim, count: int = 9, **others: Any) -> Evidence:
    """A manifest with a measurement in which ``ours`` takes half as long as ``theirs``."""
    sides = (Side("ours", "device", (1.0,) * count), Side("theirs", "device", (2.0,) * count))
    measurement = Measurement("row", "ms", 1e3, "warm", "run", sides)
    evidence = empty_evidence((), FakeRepository())
    return replace(evidence, measurements=(measurement,), claims=claims, **others)


def encoded(evidence: Evidence) -> bytes:
    """The bytes of a bundle without files."""
    return encode(evidence, {})
