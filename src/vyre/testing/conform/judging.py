"""Runs one case on the reference and on the backend under test, and says whether they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.errors import BackendError, StepBudgetExceeded, TrapError, UnsupportedFeature, VyreError
from vyre.domain.evidence.differences import Returned
from vyre.domain.evidence.differences import differences as first_differences
from vyre.domain.frozen import frozen
from vyre.domain.ir.buffers import element_of
from vyre.domain.missing import missing_from
from vyre.domain.printable import one_line
from vyre.ports.backend import Backend
from vyre.testing.execution import execute
from vyre.testing.random_programs.generator import Case

ENDLESS: Final = 100_000
"""The number of rounds of a lane after which the reference gives up; no case takes as many."""
TIMEOUT_S: Final = 30.0
"""The time after which a backend that heeds timeouts is asked to give up."""


@frozen
class Outputs:
    """The returned bytes by buffer name."""

    content: Mapping[str, bytes]

    def identity(self) -> bytes:
        """Returns bytes that differ for different results."""
        parts = [name.encode() + b"\0" + len(data).to_bytes(8, "little") + data for name, data in self.content.items()]
        return b"outputs\0" + b"".join(parts)


@frozen
class Failure:
    """A typed error that the language defines, and what it says about the lane at fault."""

    kind: type[BackendError]
    facts: tuple[object, ...]

    def identity(self) -> bytes:
        """Returns bytes that differ for different errors."""
        return f"{self.kind.__name__}\0{self.facts!r}".encode()


Result: TypeAlias = Outputs | Failure


class Judgement(Enum):
    """The verdict on a case."""

    AGREED = "agreed"
    DIFFERS = "differs"
    RAISED = "raised"
    """The backend raised an error that the language does not define for the case."""
    REFUSED = "refused"
    """The backend declares that it lacks what the case needs."""


class Judged(NamedTuple):
    """A verdict, and in words the difference, the error or what is lacking."""

    judgement: Judgement
    text: str = ""

    @property
    def failed(self) -> bool:
        """Whether the case speaks against the backend."""
        return self.judgement in (Judgement.DIFFERS, Judgement.RAISED)


def result_on(backend: Backend, case: Case) -> Result:
    """Returns what a backend gives; raises what the language does not define."""
    try:
        return Outputs(execute(backend, case.program, case.inputs, case.config))
    except TrapError as error:
        return Failure(TrapError, (error.tag, error.address, error.global_id))
    except StepBudgetExceeded as error:
        return Failure(StepBudgetExceeded, (error.budget, error.global_id))


def expected_of(reference: Backend, case: Case, rounds: int = ENDLESS) -> Result:
    """Returns what the reference gives, which ends a case without a budget after that many rounds of a lane."""
    budget = rounds if case.config.step_budget is None else case.config.step_budget
    config = replace(case.config, step_budget=budget, chunk_workgroups=1)
    return result_on(reference, replace(case, config=config))


def judge(backend: Backend, case: Case, expected: Result) -> Judged:
    """Returns the verdict on a backend, given what the reference said; raises nothing that a backend raises."""
    if lacking := missing_from(case.program, backend.profile, backend.supported_ops, case.config):
        return Judged(Judgement.REFUSED, ", ".join([missing.name for missing in lacking]))
    try:
        result = result_on(backend, replace(case, config=replace(case.config, timeout_s=TIMEOUT_S)))
    except UnsupportedFeature as error:
        return Judged(Judgement.REFUSED, one_line(error.feature))
    except VyreError as error:
        return Judged(Judgement.RAISED, one_line(f"{type(error).__name__}: {error}"))
    except Exception as error:
        return Judged(Judgement.RAISED, one_line(f"{type(error).__name__}, which is no error of vyre: {error}"))
    if result == expected:
        return Judged(Judgement.AGREED)
    return Judged(Judgement.DIFFERS, "; ".join(differences(case, expected, result)))


def differences(case: Case, expected: Result, actual: Result) -> Iterator[str]:
    """Yields, for every result that differs, its first wrong element: slot, element, byte and both values."""
    if not isinstance(expected, Outputs) or not isinstance(actual, Outputs):
        yield f"the reference gives {_told(expected)}, the backend {_told(actual)}"
        return
    right = Returned.of(case.program, expected.content)
    wrong = Returned.of(case.program, {name: actual.content.get(name, b"") for name in expected.content})
    for each in first_differences(right, wrong):
        place = f"`{each.buffer}`[{each.element}] (byte {each.byte})"
        yield f"{place} is 0x{each.found}, and the reference gives 0x{each.expected}"


def element_size(case: Case, name: str) -> int:
    """Returns the number of bytes of an element of a buffer."""
    return element_of(case.program.buffer(name)).size


def _told(result: Result) -> str:
    if isinstance(result, Outputs):
        return "outputs"
    return f"{result.kind.__name__}({', '.join(map(repr, result.facts))})"
