"""Small programs for the tests of the shadow, and the defects that they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from support.conform_defects import DEFECTS
from support.seeded_backends import SEEDED, Wrong, seeded
from vyre.domain.ir.program import Program


def defect(name: str) -> Wrong:
    return next(each for each in DEFECTS if each.name == name).of


ULP: Final = defect("f32 sqrt is one unit off")
"""Also makes sqrt(0) the least subnormal number, so that no element is right."""
LOST_UPDATE: Final = defect("atomic_add forgets: the last one wins")
RIGHT: Final[Wrong] = lambda program: program  # noqa: E731  # a backend without a defect


def roots() -> Program:
    """Takes roots of elements above 1, and copies the others."""
    with vyre.ProgramBuilder("roots", workgroup=64) as p:
        x = p.input("x", vyre.f32)
        y = p.output("y", vyre.f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i]
            with p.if_(x[i] > 1.0):
                y[i] = vyre.sqrt(x[i])
    return p.build()


def roots_in_place() -> Program:
    """Replaces elements above 1 by their roots."""
    with vyre.ProgramBuilder("roots in place", workgroup=64) as p:
        x = p.inout("x", vyre.f32)
        i = p.global_id()
        with p.if_((i < x.length) & (x[i] > 1.0)):
            x[i] = vyre.sqrt(x[i])
    return p.build()


def histogram() -> Program:
    """Counts bytes modulo 4."""
    with vyre.ProgramBuilder("histogram", workgroup=64) as p:
        x = p.input("x", vyre.u32)
        counts = p.output("counts", vyre.u32, 4)
        i = p.global_id()
        with p.if_(i < x.length):
            counts.atomic_add(x[i] % 4, 1)
    return p.build()


def numbers(length: int = 100, above: int = 7) -> Any:
    """Numbers of which none but those from position ``above`` on are above 1."""
    made = np.full(length, 0.5, np.float32)
    made[above:] = np.arange(length - above, dtype=np.float32) + 2
    return made


WAIT_S: Final = 60.0


def shadowed(
    wrong: Wrong, place: Path, base: str = "cpu", telemetry: Any = None, *, always: bool = False, **settings: Any
) -> vyre.Session:
    """A session on a seeded backend that samples everything, unless ``settings`` say otherwise."""
    shadow = vyre.Shadow(**{"rate": 1.0, "budget": None, "on": "reference", "directory": place} | settings)
    return vyre.open(SEEDED, catalog=seeded(wrong, base, always=always), shadow=shadow, telemetry=telemetry)


def settled(result: Any) -> vyre.ShadowState:
    """The final state of a result."""
    state: vyre.ShadowState = result.shadow
    assert state.wait(WAIT_S)
    return state
