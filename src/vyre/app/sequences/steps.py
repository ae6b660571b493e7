"""The items of a sequence: launches, functions of the host, batches of launches, and repeated parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import NamedTuple, TypeAlias

from vyre.app.pipeline import Inputs
from vyre.app.resident import ResidentArray
from vyre.app.shorthand import Indirect, Keywords
from vyre.domain.arguments import expect, items_of, whole
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.domain.frozen import frozen
from vyre.domain.ir.program import ProgramLike
from vyre.domain.names import Grid, Size
from vyre.domain.record import U32_MAX
from vyre.domain.specialization import SpecInput


@frozen
class Step:
    """A launch of a sequence.

    Every buffer that the program writes is bound to a resident array or a temporary one; other inputs are numbers,
    arrays of the host, which each run reads as they are then, or resident arrays too.  ``spec``, ``grid``, ``extent``,
    ``output_counts`` and ``race_check`` are the shorthand of ``Session.compile``: fields of the config, given here or
    there, not in both.  ``grid`` may be an ``Indirect``, whose counts are read when the step begins.

    ``after`` holds steps of the same sequence that must run before this one, besides those whose memory it shares.
    """

    program: ProgramLike
    inputs: Inputs = ()
    config: DispatchConfig | None = None
    _: KW_ONLY
    spec: Mapping[str, SpecInput] | None = None
    grid: Grid | Indirect | None = None
    extent: Grid | None = None
    output_counts: Mapping[str, Size] | None = None
    race_check: bool = False
    after: Sequence[Step | HostStep] = ()

    @property
    def shorthand(self) -> Keywords:
        """Returns the keywords that ``Session.compile`` takes beside program and config."""
        return {
            "spec": self.spec,
            "grid": self.grid.most if isinstance(self.grid, Indirect) else self.grid,
            "extent": self.extent,
            "output_counts": self.output_counts,
            "race_check": self.race_check,
        }


@frozen
class HostStep:
    """A function of the host that a sequence calls between its launches, in the thread that runs the sequence.

    It is called with one array for each of ``reads`` and then of ``writes``, which are resident or temporary arrays.
    In memory of the host these are NumPy arrays over the memory itself, of the type ``stored`` of the resident array,
    or its ``dtype`` where that has the same size; elsewhere they are resident arrays, to download, upload, bind or
    export.  What is only read cannot be written.  The launches before it have ended when it is called; those after it
    begin when it has returned, and all work that it left on the device has ended.  What it returns is ignored.

    ``name`` names it in plans and messages; None: as the function is called.  ``after`` as for a ``Step``.
    """

    function: Callable[..., object]
    reads: Sequence[ResidentArray] = ()
    writes: Sequence[ResidentArray] = ()
    _: KW_ONLY
    name: str | None = None
    after: Sequence[Step | HostStep] = ()


@frozen
class Batch:
    """One launch of ``program`` for each item of ``inputs``, in order; the config is shared."""

    program: ProgramLike
    inputs: Sequence[Inputs]
    config: DispatchConfig | None = None


@frozen
class Repeat:
    """``steps`` (all items but ``Repeat``), run ``times`` times in each round of the sequence."""

    steps: Sequence[Step | HostStep | Batch]
    times: int


Item: TypeAlias = "Step | HostStep | Batch | Repeat"


class Listed(NamedTuple):
    """A step with its place in the list of the caller, such as ``steps[2]``."""

    place: str
    step: Step | HostStep


class ListedPart(NamedTuple):
    """Steps that are run ``times`` times together."""

    steps: tuple[Listed, ...]
    times: int = 1


def parts_of(name: str, items: Sequence[Item]) -> tuple[ListedPart, ...]:
    """Returns the parts of a list: neighbours that are not repeated make one part.

    Raises ``InvalidInput`` for items of another type, and ``InvalidConfig`` for a number of repetitions that is no int
    from 0 to 2^32-1.
    """
    parts: list[ListedPart] = []
    single: list[Listed] = []
    for number, item in enumerate(items_of(name, items)):
        place = f"{name}[{number}]"
        if isinstance(item, Repeat):
            if single:
                parts.append(ListedPart(tuple(single)))
                single = []
            times = whole(f"{place}: times", item.times, 0, U32_MAX, "give an int from 0 to 2^32-1.")
            inner = [
                step
                for index, one in enumerate(items_of(f"{place}.steps", item.steps))
                for step in _singles(f"{place}.steps[{index}]", one)
            ]
            if inner:
                parts.append(ListedPart(tuple(inner), times))
        else:
            single.extend(_singles(place, item))
    if single:
        parts.append(ListedPart(tuple(single)))
    return tuple(parts)


def _singles(place: str, item: object) -> Iterator[Listed]:
    if isinstance(item, Batch):
        for number, inputs in enumerate(items_of("inputs", item.inputs)):
            yield Listed(f"{place}[{number}]", Step(item.program, inputs, item.config))
        return
    expect(place, item, (Step, HostStep), "a Step", InvalidInput)
    assert isinstance(item, Step | HostStep)
    yield Listed(place, item)


def refuse_host_steps(parts: Iterable[ListedPart], why: str, fix: str) -> None:
    """Raises ``InvalidInput`` for a host step in parts."""
    for place, step in (listed for part in parts for listed in part.steps):
        if isinstance(step, HostStep):
            raise InvalidInput(f"{place} is a host step, and {why}", fix=fix)
