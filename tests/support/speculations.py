"""Speculations of which every number is given, and what they commit by plain Python."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import vyre
from vyre import DispatchConfig, Program, Session, SpeculationMode, Step
from vyre.app.resident import ResidentArray
from vyre.app.speculation import Speculation, SpeculationResult

BAD: Final = 0xDEAD
"""The element of x at which a role traps."""


class Case(NamedTuple):
    """A prefilter, a confirmer and a commit of ``tiles`` tiles of ``width`` elements each.

    A tile passes if its first element modulo ``pass_modulus`` is less than ``pass_below``, and is confirmed likewise.
    The confirmer writes ``stray`` elements behind its own, also in what belongs to the next tile, and the commit reads
    ``reach`` elements behind; ``index_type`` is the type of these indices.  ``trap``: the role that traps at ``BAD``.
    """

    tiles: int
    width: int
    pass_modulus: int = 3
    pass_below: int = 1
    confirm_modulus: int = 2
    confirm_below: int = 1
    stray: int = 0
    reach: int = 0
    flag_stray: int = 0
    index_type: str = "u32"
    trap: str = ""

    def x(self, seed: int = 0) -> npt.NDArray[np.uint32]:
        return np.random.default_rng(seed).integers(0, 1 << 12, (self.tiles, self.width)).astype(np.uint32)

    def programs(self) -> tuple[Program, Program, Program]:
        def trap(role: str, value: str) -> str:
            return f'if {value} == {BAD}u {{ trap({value}, "{role}") }}' if role == self.trap else ""

        prefilter = f"""
            program prefilter
            workgroup_size 8, 1, 1
            buffer x @0 read u32[runtime]
            buffer passed @1 read_write u32[runtime]
            body {{ let t = gid.x if t < len(passed) {{
              let first = x[t * {self.width}u]
              {trap("prefilter", "first")}
              if first % {self.pass_modulus}u < {self.pass_below}u {{ passed[t] = t + 1u }}
            }} }}
            """
        confirm = f"""
            program confirm
            workgroup_size {self.width}, 1, 1
            buffer x @0 read u32[runtime]
            buffer found @1 read_write u32[runtime]
            buffer confirmed @2 read_write u32[runtime]
            body {{
              {trap("confirm", "x[gid.x]")}
              let at = cast<{self.index_type}>(gid.x + {self.stray}u)
              found[at] = x[gid.x] * 5u + wid.x
              let own = found[at]
              found[at] = own + 1u
              if lid.x == 0u {{ if x[gid.x] % {self.confirm_modulus}u < {self.confirm_below}u {{
                confirmed[wid.x + {self.flag_stray}u] = 9u
              }} }}
            }}
            """
        commit = f"""
            program commit
            workgroup_size {self.width}, 1, 1
            buffer x @0 read u32[runtime]
            buffer found @1 read u32[runtime]
            buffer y @2 read_write u32[runtime]
            body {{
              y[gid.x] = y[gid.x] + found[cast<{self.index_type}>(gid.x + {self.reach}u)] + 1u
              {trap("commit", "x[gid.x]")}
            }}
            """
        first, second, third = map(Program.from_text, (prefilter, confirm, commit))
        return first, second, third

    def expected(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """Returns what y is after a run, and which tiles passed and were committed."""
        first = x[:, 0]
        passed = first % self.pass_modulus < self.pass_below
        confirmed = (first % self.confirm_modulus < self.confirm_below) & (self.flag_stray == 0)
        committed = passed & confirmed
        found, read = np.zeros_like(x), np.zeros_like(x)
        tiles = np.arange(self.tiles, dtype=np.uint32)[:, None]
        found[:, self.stray :] = x[:, : self.width - self.stray] * np.uint32(5) + tiles + np.uint32(1)
        read[:, : self.width - self.reach] = found[:, self.reach :]
        return np.where(committed[:, None], y + read + np.uint32(1), y), passed, committed


class Bound(NamedTuple):
    run: Speculation
    x: ResidentArray
    y: ResidentArray
    passed: ResidentArray
    confirmed: ResidentArray

    def __call__(self) -> SpeculationResult:
        return self.run()


def bound(session: Session, case: Case, x: Any, y: Any, mode: SpeculationMode | None = None, **config: Any) -> Bound:
    """``config`` is that of the confirmer."""
    prefilter, confirm, commit = case.programs()
    flags = np.full(case.tiles, 77, np.uint32)
    held = Bound(None, *map(session.resident, (x, y, flags, flags)))  # type: ignore[arg-type]
    found = session.temporary(vyre.u32, case.tiles * case.width)
    run = session.speculate(
        Step(prefilter, {"x": held.x, "passed": held.passed}, extent=case.tiles),
        Step(
            confirm,
            {"x": held.x, "found": found, "confirmed": held.confirmed},
            DispatchConfig(speculation=mode, **config),
        ),
        Step(commit, {"x": held.x, "found": found, "y": held.y}),
        passed=held.passed,
        confirmed=held.confirmed,
    )
    return held._replace(run=run)
