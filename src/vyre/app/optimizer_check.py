"""A check of one run of the optimizer: both programs run on the reference with witnesses, and must give the same."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, NamedTuple, cast

from vyre.app.opening import open as open_session
from vyre.app.services import WIRING, wired
from vyre.app.session import Session
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, DataRaceError, TrapError
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import buffer_bytes
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import validate

RUNS: Final = 24
TIMEOUT_S: Final = 20.0
_LENGTHS: Final = (1, 3, 32, 33, 64, 100, 257)
"""Numbers of elements of buffers whose size is left open."""
_DRAWN: Final = 4093
"""How many elements of a buffer are drawn; longer ones repeat them."""


class Difference(NamedTuple):
    """A witness for which the two programs differ: the seed of its inputs, and what each program gave."""

    seed: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.before} before, {self.after} after"


class CheckedRuns(NamedTuple):
    """The result of a check.

    ``agreed``: runs in which both programs gave the same bytes or error.  ``skipped``: runs whose inputs say nothing,
    by reason.  ``differences`` is empty if nothing was found.  ``invalid``: why the optimized program is none, or "".
    """

    agreed: int
    skipped: dict[str, int]
    differences: tuple[Difference, ...]
    invalid: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the optimized program."""
        return not self.differences and not self.invalid

    @property
    def text(self) -> str:
        """The result in one line, for people."""
        if self.invalid:
            return f"check: the optimized program is invalid: {self.invalid}"
        skipped = "".join(f"; {count} runs were skipped: {reason}" for reason, count in sorted(self.skipped.items()))
        if not self.differences:
            return f"check: {self.agreed} runs with seeded inputs gave the same{skipped}"
        return f"check: {len(self.differences)} runs differ, {self.agreed} agree{skipped}; {self.differences[0]}"


def check_runs(before: Program, after: Program, runs: int = RUNS) -> CheckedRuns:
    """Runs two programs of one interface on the reference with ``runs`` seeded sets of inputs, and compares them.

    Inputs hold values at which arithmetic goes wrong.  Runs in which ``before`` is refused or takes longer than
    ``TIMEOUT_S`` are skipped, and so are runs that differ because ``before`` has a data race.
    """
    report = validate(after)
    if not report.ok:
        return CheckedRuns(0, {}, (), str(report.errors[0]))
    if order_sensitive(after) and not order_sensitive(before):
        return CheckedRuns(0, {}, (), "it depends on the order of lanes, which the program before does not")
    agreed, skipped, differences = 0, dict[str, int](), list[Difference]()
    with wired(WIRING.get()._replace(options={})), open_session("reference", cache=False, optimize=False) as session:
        for seed in range(runs):
            first = _outcome(session, before, seed)
            second = first if first.startswith(_REFUSED) else _outcome(session, after, seed)
            why = first if first.startswith(_REFUSED) else ""
            if first != second and _races(session, before, seed):
                why = "the program has a data race for these inputs"
            if why:
                skipped[why] = skipped.get(why, 0) + 1
            elif first == second:
                agreed += 1
            else:
                differences.append(Difference(seed, first, second))
    return CheckedRuns(agreed, skipped, tuple(differences))


_REFUSED: Final = "refused: "


def _races(session: Session, program: Program, seed: int) -> bool:
    try:
        _run(session, program, seed, race_check=True)
    except DataRaceError:
        return True
    except BackendError:
        return False
    return False


def _outcome(session: Session, program: Program, seed: int) -> str:
    try:
        return _run(session, program, seed, race_check=False)
    except TrapError as error:
        return f"trap {error.tag!r} with {error.address} in lane {error.global_id}"
    except BackendError as error:
        return f"{_REFUSED}{type(error).__name__}"


def _run(session: Session, program: Program, seed: int, *, race_check: bool) -> str:
    length = _LENGTHS[seed % len(_LENGTHS)]
    inputs = {
        buffer.name: _contents(buffer, length, seed * 64 + place)
        for place, buffer in enumerate(program.abi_buffers)
        if buffer.takes_input
    }
    config = DispatchConfig(timeout_s=TIMEOUT_S, race_check=race_check)
    output_counts = {
        buffer.name: length for buffer in program.abi_buffers if not (buffer.takes_input or buffer.count or buffer.like)
    }
    if program.workgroup_size[1:] != (1, 1):
        config = replace(config, grid=(2, 1, 1))
    else:
        config = replace(config, grid=(max(1, -(-length // prod(program.workgroup_size))), 1, 1))
    result = session.dispatch(program, inputs, config, output_counts=output_counts or None)
    return "; ".join(f"{name} {array.tobytes().hex()}" for name, array in result.items())


def _contents(buffer: Buffer, length: int, seed: int) -> bytes:
    """Returns the bytes of an input: its own number of elements, or ``length`` if that is left open."""
    if buffer.is_push and buffer.element is ScalarType.BOOL:
        return (seed % 2).to_bytes(4, "little")
    count = buffer.count or (1 if buffer.is_push else length)
    element = cast("ScalarType", buffer.element)
    drawn = buffer_bytes(seed, element, min(count, _DRAWN))
    return (drawn * -(-count // _DRAWN))[: count * element.size]
