"""Random programs of a front end with one error each: whoever finds it names the front end's line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from random import Random
from typing import Final, NamedTuple

import numpy as np
import pytest

import vyre
from vyre import (
    BufferHandle,
    BuildError,
    DataRaceError,
    DispatchConfig,
    InvalidProgram,
    Program,
    ProgramBuilder,
    StepBudgetExceeded,
    TrapError,
    VyreError,
    u32,
)
from vyre.domain.excerpts import excerpt
from vyre.domain.ir.location_table import table_of
from vyre.ir import Access, EventBuilder, Literal, SourceLocation

EACH: Final = 23
"""Programs of each kind: more than 200 in all."""
FILE: Final = "prog.mini"
LANES: Final = 64


class Source:
    """The lines of a program that is written while it is lowered."""

    def __init__(self, rng: Random) -> None:
        self.rng: Final = rng
        self.lines: Final[list[str]] = [""] * rng.randrange(5)

    def line(self, text: str) -> SourceLocation:
        """Appends a line, and returns the location of its first word."""
        indent = " " * self.rng.randrange(6)
        self.lines.append(indent + text)
        return SourceLocation(FILE, len(self.lines), len(indent) + 1, self.lines[-1])


class Kernel(NamedTuple):
    """A program under construction."""

    source: Source
    p: ProgramBuilder
    x: BufferHandle
    y: BufferHandle


def pad(k: Kernel) -> None:
    """Records up to three valid statements, each on a line of its own."""
    for _ in range(k.source.rng.randrange(4)):
        with k.p.at(k.source.line("y[i] = x[i] + 1")):
            k.y[k.p.global_id()] = k.x[k.p.global_id()] + 1


def nested(k: Kernel) -> AbstractContextManager[object]:
    """Opens up to three conditions that hold, each on a line of its own."""
    stack = ExitStack()
    for _ in range(k.source.rng.randrange(4)):
        stack.enter_context(k.p.if_(k.x[0] < 1000, loc=k.source.line("if x[0] < 1000")))
    return stack


def mixed_types(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(loc):
        k.y[0] = k.x[0] + k.p.let(1.5)


def read_only(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(loc):
        k.x[0] = 1


def foreign_name(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(loc):
        k.p.syncthreads()  # type: ignore[attr-defined]


def missing_argument(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(loc):
        k.p.trap(0)  # type: ignore[call-arg]


def stale_value(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(k.source.line("before")):
        old = k.y[0] + 1
        k.y[0] = 3
    with k.p.at(loc):
        k.y[1] = old


def no_number(k: Kernel, loc: SourceLocation) -> None:
    k.p.let("one", loc=loc)  # type: ignore[arg-type]


def outside_of_loops(k: Kernel, loc: SourceLocation) -> None:
    k.p.break_(loc=loc)


BUILD: Final = (mixed_types, read_only, foreign_name, missing_argument, stale_value, no_number, outside_of_loops)
"""Mistakes that the builder refuses."""


def divergent_barrier(k: Kernel, loc: SourceLocation) -> None:
    with k.p.if_(k.p.global_id() < 3, loc=k.source.line("if i < 3")):
        k.p.barrier(loc=loc)


def behind_the_end(k: Kernel, loc: SourceLocation) -> None:
    with k.p.block():
        k.p.return_(loc=k.source.line("return"))
        k.p.barrier(loc=loc)


RULES: Final = (divergent_barrier, behind_the_end)
"""Mistakes that the validator finds."""


def trapping(k: Kernel, loc: SourceLocation) -> None:
    with k.p.if_(k.x[1] == 7):
        k.p.trap(0, "same", loc=k.source.line("other trap"))
    k.p.trap(3, "same", loc=loc)


def endless(k: Kernel, loc: SourceLocation) -> None:
    with k.p.for_(0, 3, loc=k.source.line("for short")), k.p.for_(0, 100, loc=loc):
        k.y[k.p.global_id()] = 1


def racing(k: Kernel, loc: SourceLocation) -> None:
    with k.p.at(loc):
        k.y[0] = k.p.global_id()


RUNS: Final[dict[Callable[[Kernel, SourceLocation], None], type[VyreError]]] = {
    trapping: TrapError,
    endless: StepBudgetExceeded,
    racing: DataRaceError,
}
"""Mistakes that runs find."""


class Lowering:
    """The lowering of one random program with an error on the line ``wrong``."""

    def __init__(self, seed: int, inject: Callable[[Kernel, SourceLocation], None]) -> None:
        self.source: Final = Source(Random(seed))
        self.inject: Final = inject
        self.wrong: SourceLocation | None = None

    def program(self) -> Program:
        """Returns the program."""
        source = self.source
        with ProgramBuilder("random", workgroup=LANES, loc=source.line("kernel random")) as p:
            k = Kernel(source, p, p.input("x", u32), p.inout("y", u32))
            pad(k)
            with nested(k):
                pad(k)
                self.wrong = source.line("wrong = y[0]  # here")
                self.inject(k, self.wrong)
            pad(k)
        return p.build()

    def check(self, error: BaseException, loc: SourceLocation | None) -> None:
        """Checks that an error is at the line, shows it underlined, and says nothing of this file."""
        assert self.wrong is not None
        text = str(error)
        assert loc == self.wrong
        assert str(self.wrong) in text and __file__ not in text
        for line in excerpt(self.wrong).split("\n"):
            assert line in text
        assert excerpt(self.wrong).endswith("^^^^^")


@pytest.mark.parametrize("inject", BUILD, ids=lambda kind: kind.__name__)
def test_the_builder_names_the_line(inject: Callable[[Kernel, SourceLocation], None]) -> None:
    for seed in range(EACH):
        lowering = Lowering(seed, inject)
        with pytest.raises(BuildError) as caught:
            lowering.program()
        lowering.check(caught.value, caught.value.loc)
        assert caught.value.python_loc is not None and caught.value.python_loc.file == __file__


@pytest.mark.parametrize("inject", RULES, ids=lambda kind: kind.__name__)
def test_the_validator_names_the_line(inject: Callable[[Kernel, SourceLocation], None]) -> None:
    for seed in range(EACH):
        lowering = Lowering(seed, inject)
        with pytest.raises(InvalidProgram) as caught:
            lowering.program()
        report = caught.value.report
        assert report is not None
        lowering.check(caught.value, report.errors[0].loc)
        assert excerpt(lowering.wrong).split("\n")[1] in report.render()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("inject", RUNS, ids=lambda kind: kind.__name__)
def test_runs_name_the_line(inject: Callable[[Kernel, SourceLocation], None], backend: str) -> None:
    races = inject is racing
    if races and backend == "cpu":
        return  # it finds no races
    config = DispatchConfig(step_budget=20 if inject is endless else None, race_check=races)
    with vyre.open(backend) as session:
        for seed in range(EACH // 4):
            lowering = Lowering(seed, inject)
            program = lowering.program()
            with pytest.raises(RUNS[inject]) as caught:
                session.dispatch(program, [np.zeros(LANES, np.uint32)] * 2, config)
            error = caught.value
            if isinstance(error, DataRaceError):
                wrong = [race for race in error.races if race.first.loc == lowering.wrong == race.second.loc]
                assert wrong
            else:
                assert isinstance(error, TrapError | StepBudgetExceeded)
                lowering.check(error, error.loc)


def test_code_of_another_program_of_the_digest_tells_the_lines_of_this_one() -> None:
    with vyre.open("cpu") as session:
        for first in (1, 50, 1):
            with ProgramBuilder("moved", workgroup=1) as p:
                y = p.inout("y", u32)
                for number in range(3):
                    with p.if_(y[0] == number):
                        p.trap(number, "t", loc=SourceLocation(FILE, first + number))
            program = p.build()
            for number in range(3):
                with pytest.raises(TrapError) as caught:
                    session.dispatch(program, [np.array([number], np.uint32)])
                assert caught.value.loc == SourceLocation(FILE, first + number)


def test_events_have_the_location_that_is_given_or_open() -> None:
    outer, inner = SourceLocation(FILE, 3, 1, "outer"), SourceLocation(FILE, 4, 1, "inner")
    b = EventBuilder("events", workgroup=1)
    with b.at(outer):
        b.buffer("y", u32, Access.READ_WRITE)
        b.store("y", Literal.of(u32, 0, loc=inner), Literal.of(u32, 1))
        b.barrier(loc=inner)
        with pytest.raises(BuildError) as caught:
            b.store("y", 1, Literal.of(u32, 1))  # type: ignore[arg-type]
    assert caught.value.loc == outer and "    outer\n    ^^^^^" in str(caught.value)
    program = b.build()
    assert [program.buffers[0].loc, *(stmt.loc for stmt in program.body)] == [outer, outer, inner]


def test_both_builders_have_the_same_names() -> None:
    events = {name for name in dir(EventBuilder) if not name.startswith("_")}
    assert events - set(dir(ProgramBuilder)) == {
        "append",
        "assign",
        "case",
        "close",
        "declare",
        "default",
        "depth",
        "store",
    }


def test_written_forms_carry_locations_on_request() -> None:
    for seed in range(EACH):
        program = Lowering(seed, lambda k, loc: k.p.barrier(loc=loc)).program()
        wire, value = program.to_wire(locations=True), program.to_json(locations=True)
        for read in (Program.from_wire(wire), Program.from_json(value)):
            assert read == program and read.digest == program.digest
            assert table_of(read) == table_of(program) != None  # noqa: E711
            assert read.to_wire(locations=True) == wire and read.to_json(locations=True) == value
            assert read.to_wire() == program.to_wire()
