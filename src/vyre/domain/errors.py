"""The errors that vyre raises: a class per kind, a stable code, what and where, and a ``Fix:``.

``str(error)`` is ``message. Fix: remedy``; ``message``, ``fix`` and the payload are attributes.  Context (backend,
program, segment) is added with ``add_note`` and changes neither text nor code.  Every error can be pickled.  Codes
are append-only and never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.printable import shown
from vyre.domain.races import DataRace, races_text

if TYPE_CHECKING:
    from vyre.domain.names import Dim3
    from vyre.domain.source_location import SourceLocation

_FIX: Final = "Fix: "
_SHOWN: Final = 3
"""The most places of one error that its message names."""


class ErrorCode(IntEnum):
    """Stable numbers of errors.  1001-1006 and 1999 equal the codes of vyre-driver, the Rust system; the others are
    vyre's.
    """

    DEVICE_OUT_OF_MEMORY = 1001
    UNSUPPORTED_FEATURE = 1002
    KERNEL_COMPILE_FAILED = 1004
    DISPATCH_FAILED = 1005
    INVALID_PROGRAM = 1006
    DEVICE_LOST = 1007
    DISPATCH_TIMEOUT = 1008
    INVALID_RESOURCE = 1009
    INVALID_INPUT = 1010
    TRAP = 1011
    STEP_BUDGET_EXCEEDED = 1012
    DATA_RACE = 1013
    BACKEND_UNAVAILABLE = 1014
    UNUSABLE_BUNDLE = 1015
    QUEUE_FULL = 1016
    WORK_QUEUE_OVERFLOW = 1017
    REFUSED_BY_GATE = 1018
    GRID_OVERFLOW = 1019
    DEVICE_LIMIT_EXCEEDED = 1020
    HOST_STEP_FAILED = 1021
    BUILD_ERROR = 1101
    MALFORMED_TEXT = 1102
    MALFORMED_WIRE = 1103
    MALFORMED_JSON = 1104
    INVALID_CONFIG = 1105
    UNREADABLE_FILE = 1106
    INVALID_FIELD = 1107
    INVALID_PLAN = 1108
    UNFINISHED_BUILD = 1109
    MALFORMED_BUNDLE = 1110
    UNEXPECTED_DIGEST = 1111
    UNUSABLE_COSTS = 1112
    INVALID_USE = 1113
    INVALID_DIALECT = 1114
    UNKNOWN = 1999


class Event(NamedTuple):
    """Something that a session told its telemetry: a name, a severity (``debug``, ``info``, ``warning`` or ``error``),
    fields by name, and the time in seconds since the epoch; 0.0 where nobody looked at the clock.
    """

    name: str
    level: str
    fields: dict[str, object]
    at_s: float = 0.0


class VyreError(Exception):
    """The root of all errors.  A ``Fix:`` inside ``message`` is split off when ``fix`` is not given.

    ``recent`` holds the last events that the session had told its telemetry when a run failed, oldest first.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN
    recent: tuple[Event, ...] = ()
    default_fix: ClassVar[str] = "read the chained exception; nothing more specific is known."

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        if fix is None:
            head, mark, tail = message.partition(_FIX)
            if mark:
                message, fix = head, tail
        self.message: str = message.strip().removesuffix(".")
        self.fix: str = fix if fix is not None else self.default_fix
        super().__init__(f"{self.message}. {_FIX}{self.fix}" if self.message else f"{_FIX}{self.fix}")

    def __str__(self) -> str:  # KeyError, of which some errors are, shows the repr of its argument
        return Exception.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[VyreError], args: tuple[Any, ...], state: dict[str, Any]) -> VyreError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class BackendError(VyreError):
    """The root of every failure that may cross the backend port."""


class DeviceOutOfMemory(BackendError):
    """The device has too little memory.

    ``requested`` and ``available`` are bytes; ``available`` is None where it is unknown.
    """

    code = ErrorCode.DEVICE_OUT_OF_MEMORY
    default_fix = "close resident buffers that are no longer used, or split the dispatch."

    def __init__(self, *, requested: int, available: int | None = None) -> None:
        self.requested: int = requested
        self.available: int | None = available
        known = "" if available is None else f", {available} bytes available"
        super().__init__(f"device memory exhausted: {requested} bytes requested{known}")


class UnsupportedFeature(BackendError):
    """The backend does not offer a feature that the program or the config needs."""

    code = ErrorCode.UNSUPPORTED_FEATURE
    default_fix = (
        "choose a backend that offers it: `vyre.missing(program, backend)` and `session.missing(program)` say what one "
        "lacks for a program, and `vyre backends --json` what each offers."
    )

    def __init__(self, *, feature: str, backend: str, fix: str | None = None) -> None:
        self.feature: str = feature
        self.backend: str = backend
        super().__init__(f"backend `{backend}` does not support `{feature}`", fix=fix)


class _PlacedError(BackendError):
    """An error about a part of a program; ``loc`` is its location in the user's source, None where that is unknown."""

    loc: SourceLocation | None = None

    def place(self, loc: SourceLocation) -> None:
        """Sets ``loc``; the message then names its first places, and shows the line of the first where it is known."""
        self.loc = loc
        places = ", ".join(map(str, loc.places[:_SHOWN])) + (", ..." if len(loc.places) > _SHOWN else "")
        self.message: str = f"{places}: {self.message}"
        self.args: tuple[Any, ...] = ("\n".join(filter(None, (f"{places}: {self.args[0]}", _excerpt(loc)))),)


class DeviceLimitExceeded(_PlacedError):
    """A valid program or launch is larger than the device allows.

    ``what`` has the size ``needed``, of which ``offered`` is the most; ``limit`` is the name that the profile has for
    it, if it has one, and ``buffer`` that of the buffer that is too large.  ``loc``: where the user declared the
    buffer or the workgroup memory, and else where the program begins; None where that is unknown.
    """

    code = ErrorCode.DEVICE_LIMIT_EXCEEDED

    buffer: str | None = None

    def __init__(self, *, what: str, limit: str, needed: int, offered: int, backend: str) -> None:
        self.what: str = what
        self.limit: str = limit
        self.needed: int = needed
        self.offered: int = offered
        self.backend: str = backend
        message = f"the {what} is {needed}; backend `{backend}` allows {offered}"
        super().__init__(message, fix=f"use at most {offered}, or a backend that allows more.")


class KernelCompileFailed(BackendError):
    """The backend's compiler refused the generated code; ``compiler_log`` is its output."""

    code = ErrorCode.KERNEL_COMPILE_FAILED
    default_fix = "validate the program, then read the compiler log beside the emitted source."

    def __init__(self, *, backend: str, compiler_log: str) -> None:
        self.backend: str = backend
        self.compiler_log: str = compiler_log
        super().__init__(f"backend `{backend}` could not compile the kernel: {compiler_log}")


class DispatchFailed(BackendError):
    """A dispatch failed; ``native_code`` is the driver's own error number, if there is one."""

    code = ErrorCode.DISPATCH_FAILED
    default_fix = "check launch limits and buffer sizes, then retry once."

    def __init__(self, message: str, *, native_code: int | None = None, fix: str | None = None) -> None:
        self.native_code = native_code
        super().__init__(message if native_code is None else f"{message} [native code {native_code}]", fix=fix)


class DeviceLost(BackendError):
    """The device context can no longer be used."""

    code = ErrorCode.DEVICE_LOST
    default_fix = "call recover(), then allocate buffers and compile pipelines again."


class DispatchTimeout(BackendError):
    """A dispatch took longer than the config allows."""

    code = ErrorCode.DISPATCH_TIMEOUT
    default_fix = "raise DispatchConfig.timeout_s or make the dispatch smaller."


class InvalidResource(BackendError):
    """A resident buffer or output storage cannot be used here."""

    code = ErrorCode.INVALID_RESOURCE
    default_fix = "keep the buffer open, on its own backend, and bind it once."


def session_closed() -> InvalidResource:
    """Returns the error for every use of a session that is closed or closing."""
    return InvalidResource("the session is closed", fix="open a new one with vyre.open().")


class QueueFull(BackendError):
    """As many jobs as a queue holds are under way; nothing was submitted."""

    code = ErrorCode.QUEUE_FULL
    default_fix = "wait for a ticket, open it with a greater capacity, or with backpressure=True."


class WorkQueueOverflow(BackendError):
    """Items found no room in a work queue on the device, and were dropped; the drain stopped.

    ``capacity`` is the number of its slots, and ``lost`` the number of items without one in the phase that overflowed.
    """

    code = ErrorCode.WORK_QUEUE_OVERFLOW
    default_fix = "make the queue with a greater capacity, and its arrays anew: they hold a part of the results."

    def __init__(self, *, capacity: int, lost: int) -> None:
        self.capacity: int = capacity
        self.lost: int = lost
        super().__init__(f"{lost} item(s) found no room in a work queue of {capacity} slots")


class GridOverflow(BackendError):
    """A launch found more workgroups in memory than it may have, and ran none of them; other launches ran.

    ``step`` names it; ``counts`` and ``most`` hold the workgroups along x, y and z.
    """

    code = ErrorCode.GRID_OVERFLOW
    default_fix = "raise `most` of its vyre.Indirect, or store smaller counts."

    def __init__(self, *, step: str, counts: Dim3, most: Dim3) -> None:
        self.step: str = step
        self.counts: Dim3 = counts
        self.most: Dim3 = most
        counted, limit = (" x ".join(map(str, sizes)) for sizes in (counts, most))
        super().__init__(f"{step} found {counted} workgroups in memory, and {limit} are its most: it ran none of them")


class HostStepFailed(BackendError):
    """The function of a host step raised the chained exception; the steps before it have run, and none after it.

    ``step`` is the name of the host step, and ``place`` its place in the list of the caller, such as ``steps[2]``.
    """

    code = ErrorCode.HOST_STEP_FAILED
    default_fix = "read the chained exception; the arrays hold what the steps before had written, and the function too."

    def __init__(self, *, step: str, place: str, reason: str) -> None:
        self.step: str = step
        self.place: str = place
        super().__init__(f"the host step `{step}` ({place}) raised {reason}")


class InvalidInput(BackendError):
    """Inputs do not fit the program in number, dtype, byte order, length, layout or scalar range."""

    code = ErrorCode.INVALID_INPUT
    default_fix = "pass one C-contiguous buffer of the declared element type per input, in binding order."


class _LaneError(_PlacedError):
    """A lane ended a run at a statement of the program.

    ``loc`` is the location of that statement in the user's source; None where it has none, or where the backend does
    not know the statement.  ``site`` is the statement as compiled code names it.
    """

    def __init__(self, message: str, site: str | None = None) -> None:
        self.site: str | None = site
        super().__init__(message)


class TrapError(_LaneError):
    """A lane executed ``Trap``; among those that did, the named lane has the lowest linear global id."""

    code = ErrorCode.TRAP
    default_fix = "read the tag and address: the program itself asked to stop here."
    MARK: ClassVar[str] = "\0site:"
    """Stands between tag and site in what compiled code knows of a trap."""

    def __init__(self, *, tag: str, address: int, global_id: tuple[int, int, int]) -> None:
        tag, _, site = tag.rpartition(self.MARK) if self.MARK in tag else (tag, "", "")
        self.tag: str = tag
        self.address: int = address
        self.global_id: tuple[int, int, int] = global_id
        super().__init__(f"trap `{tag}` at address {address} by the lane with global id {global_id}", site or None)


class StepBudgetExceeded(_LaneError):
    """A lane took more loop back-edges than ``DispatchConfig.step_budget`` allows."""

    code = ErrorCode.STEP_BUDGET_EXCEEDED
    default_fix = "raise DispatchConfig.step_budget, or make the loop end."

    def __init__(self, *, budget: int, global_id: tuple[int, int, int], site: str | None = None) -> None:
        self.budget: int = budget
        self.global_id: tuple[int, int, int] = global_id
        super().__init__(f"the lane with global id {global_id} exceeded its budget of {budget} loop steps", site)


class DataRaceError(BackendError):
    """A run that checks for data races found some.  The chained exception is the other error of that run, if any.

    ``races`` holds at most one race per element.  ``notes`` holds elements to which several lanes stored equal bits,
    which is allowed.  Both are bounded in number.  The device remains usable.
    """

    code = ErrorCode.DATA_RACE
    default_fix = "put a barrier between the accesses, give each lane elements of its own, or use atomics."

    def __init__(self, *, races: tuple[DataRace, ...], notes: tuple[DataRace, ...] = ()) -> None:
        self.races: tuple[DataRace, ...] = races
        self.notes: tuple[DataRace, ...] = notes
        super().__init__(f"data race: {races_text(races)}", fix=races[0].remedy if races else None)
        for loc in dict.fromkeys((races[0].first.loc, races[0].second.loc)) if races else ():
            if line := _excerpt(loc):
                self.args: tuple[Any, ...] = (f"{self.args[0]}\n  --> {loc}\n{line}",)

    def place(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        """Names elements by their index along each axis; ``sizes`` are those of the axes after the first, by buffer."""
        races, notes = (
            tuple([race._replace(sizes=sizes.get(race.buffer, ())) for race in group])
            for group in (self.races, self.notes)
        )
        DataRaceError.__init__(self, races=races, notes=notes)


class BackendUnavailable(BackendError):
    """There is no such backend, or it cannot run here."""

    code = ErrorCode.BACKEND_UNAVAILABLE
    default_fix = "run `vyre doctor` to see what is missing, or ask for `reference`."


class UnusableBundle(BackendError):
    """No code of a bundle runs on this device.  ``refused`` lists every member with the reason."""

    code = ErrorCode.UNUSABLE_BUNDLE
    default_fix = "build the bundle again with `vyre aot --target` for this device."

    def __init__(self, *, device: str, refused: tuple[tuple[str, str], ...]) -> None:
        self.device: str = device
        self.refused: tuple[tuple[str, str], ...] = refused
        listed = "; ".join(f"{member}: {reason}" for member, reason in refused) or "it holds no code"
        super().__init__(f"nothing in the bundle runs on {device}: {listed}")


class RefusedByGate(BackendError):
    """A gate refuses a valid program; ``gate`` is its name, ``gate_code`` the code and ``reason`` the text it gave."""

    code = ErrorCode.REFUSED_BY_GATE
    default_fix = "change the program as the gate says, or open the session with other gates."

    def __init__(self, *, gate: str, gate_code: str, reason: str, fix: str | None = None) -> None:
        self.gate: str = gate
        self.gate_code: str = gate_code
        self.reason: str = reason
        super().__init__(f"[{gate_code}] the gate {gate} refuses the program: {reason}", fix=fix)


class LocatedError(VyreError):
    """An error at a position in the user's source or text."""

    def __init__(self, message: str, *, fix: str | None = None, loc: SourceLocation | None = None) -> None:
        self.loc = loc
        super().__init__(f"{loc}: {message}" if loc is not None else message, fix=fix)


_python_place: Final[FunctionAbove[[SourceLocation | None], SourceLocation | None]] = FunctionAbove("python_place")
"""Returns the line of Python for the location of an error."""
_excerpt: Final[FunctionAbove[[SourceLocation | None], str]] = FunctionAbove("indented_excerpt")
"""Returns the line at a location with the position underlined, or nothing where it is unknown."""


class BuildError(LocatedError):
    """The builder was used wrongly; the message names the user's line.

    ``loc`` is the line of the program that is built: the one that a compiler gave, or else that of the Python code.
    ``python_loc`` is the line of the Python code in both cases.  ``excerpt`` is the line of the source with what is
    meant underlined, for kernels in plain Python and for the locations of a compiler.
    """

    code = ErrorCode.BUILD_ERROR
    default_fix = "see the builder's documentation."

    def __init__(
        self,
        message: str,
        *,
        fix: str | None = None,
        loc: SourceLocation | None = None,
        excerpt: str = "",
        python_loc: SourceLocation | None = None,
    ) -> None:
        self.python_loc: SourceLocation | None = python_loc or _python_place(loc)
        self.excerpt: str = excerpt or _excerpt(loc)
        super().__init__(message, fix=fix, loc=loc)
        if self.excerpt:
            self.args: tuple[Any, ...] = (f"{self.args[0]}\n{self.excerpt}",)


class KernelSourceError(BuildError):
    """A function cannot become a kernel."""

    default_fix = "see the documentation of kernels in Python."


class UnknownAttribute(BuildError, AttributeError):
    """Code reads an attribute that a builder, buffer or value does not have, or sets one of them."""


class InvalidUse(LocatedError):
    """The package, a session, a config or a result is used in a way that it does not offer."""

    code = ErrorCode.INVALID_USE
    default_fix = "see the documentation of what is called."


class UnknownName(InvalidUse, AttributeError):
    """The package, a session or a result is asked for an attribute that it does not have."""


class UnfitArguments(InvalidUse, TypeError):
    """A call whose arguments do not fit the signature."""


class NotCopied(InvalidUse, TypeError):
    """An object is copied or pickled of which there is one only."""


class UnknownOutput(InvalidUse, KeyError):
    """A result is asked for an output that the program does not have."""


class UnknownBuffer(InvalidUse, KeyError):
    """A program is asked for a buffer that it does not declare."""


class UnknownEntry(InvalidUse, KeyError):
    """A bundle is asked for an entry point that it does not have."""


class UnsupportedUse(BuildError, TypeError):
    """Python, NumPy or the user applies to a buffer or value an operation that only a number or an array supports."""


class UnboundVariable(BuildError, UnboundLocalError):
    """An in-place operator in a function makes a variable of the kernel local to that function."""


class MalformedText(LocatedError):
    """``.vyre`` text does not parse; ``loc`` has line and column."""

    code = ErrorCode.MALFORMED_TEXT
    default_fix = "compare with the grammar in docs/text-format.md."


class MalformedWire(VyreError):
    """Bytes do not encode a ``.vyrb`` program; ``offset`` is the byte at which decoding stopped, if known."""

    code = ErrorCode.MALFORMED_WIRE
    default_fix = "encode the program again with Program.to_wire()."

    def __init__(self, message: str, *, fix: str | None = None, offset: int | None = None) -> None:
        self.offset = offset
        super().__init__(message if offset is None else f"{message} (at byte {offset})", fix=fix)


class MalformedJson(VyreError):
    """JSON does not describe a program; ``path`` is a JSON path such as ``$.entry[3][2]``."""

    code = ErrorCode.MALFORMED_JSON
    default_fix = "compare with the schema in docs/json-format.md."

    def __init__(self, message: str, *, fix: str | None = None, path: str = "$") -> None:
        self.path = path
        super().__init__(f"{path}: {message}", fix=fix)


class MalformedBundle(VyreError):
    """Bytes are no bundle, or no longer the bundle that was written."""

    code = ErrorCode.MALFORMED_BUNDLE
    default_fix = "build the bundle again with `vyre aot`, or copy it again."


class UnexpectedDigest(VyreError):
    """A loaded value has another digest than the caller expects; both digests are hexadecimal."""

    code = ErrorCode.UNEXPECTED_DIGEST
    default_fix = "load what the digest was taken of, or check it and expect the new digest."

    def __init__(self, *, what: str, expected: str, actual: str) -> None:
        self.what: str = what
        self.expected: str = expected
        self.actual: str = actual
        super().__init__(f"{what} has the digest {actual}, expected was {expected}")


class UnusableCosts(VyreError):
    """Launch costs belong to another device, or are out of date."""

    code = ErrorCode.UNUSABLE_COSTS
    default_fix = "measure them on this device, or plan with assumed ones."


class ForeignCosts(UnusableCosts):
    """Launch costs belong to another source; ``expected`` and ``actual`` name backend, device and driver."""

    def __init__(self, *, expected: str, actual: str) -> None:
        self.expected: str = expected
        self.actual: str = actual
        super().__init__(f"launch costs of {actual} are not those of {expected}")


class StaleCosts(UnusableCosts):
    """Launch costs are older than allowed; both ages are in seconds."""

    def __init__(self, *, age_s: int, max_age_s: int) -> None:
        self.age_s: int = age_s
        self.max_age_s: int = max_age_s
        super().__init__(f"launch costs are {age_s} s old, at most {max_age_s} s are allowed")


class InvalidDialect(VyreError):
    """A dialect, an operation of one, or a migration between versions of an operation cannot be used."""

    code = ErrorCode.INVALID_DIALECT
    default_fix = "compare the dialect with docs/dialects.md."


class UnknownOperation(InvalidDialect):
    """No registered dialect has the operation ``operation``."""

    default_fix = "define it in the program, register its dialect, or correct the name."

    def __init__(self, *, operation: str, fix: str | None = None) -> None:
        self.operation: str = operation
        super().__init__(f"no dialect has the operation {shown(operation)}", fix=fix)


class DuplicateOperation(InvalidDialect):
    """Two registrants gave the operation ``operation`` the same id; ``first`` and ``second`` name them."""

    default_fix = "give one of the operations another id, or register one of the two only."

    def __init__(self, *, operation: str, first: str, second: str) -> None:
        self.operation: str = operation
        self.first: str = first
        self.second: str = second
        super().__init__(f"`{operation}` is registered by {first} and by {second}")


class MigrationFailed(InvalidDialect):
    """A rewrite of the call of an operation failed, or gave what is no call; the program is unchanged."""


class InvalidConfig(VyreError):
    """A field of a ``DispatchConfig``, a specialization value or a setting is outside its range."""

    code = ErrorCode.INVALID_CONFIG
    default_fix = "use a value inside the documented range."


class InvalidField(VyreError):
    """A field of an input record has the wrong type or lies outside its domain; ``record`` and ``field`` name it."""

    code = ErrorCode.INVALID_FIELD
    default_fix = "pass a value of the documented type and range."

    def __init__(self, *, record: str, field: str, value: object, expected: str) -> None:
        self.record: str = record
        self.field: str = field
        self.expected: str = expected
        super().__init__(f"{record}.{field} = {shown(value)} is not {expected}", fix=f"pass {expected}.")


class PlanError(VyreError):
    """A planner cannot answer.

    ``kind`` names the rule, such as ``OverBudget``, and ``fields`` hold the values that it saw.  The error of a
    planner that another planner called is the field ``source``.
    """

    code = ErrorCode.INVALID_PLAN
    default_fix = "change the values named, or plan for less."

    def __init__(self, kind: str, /, *, fix: str | None = None, **fields: object) -> None:
        self.kind: str = kind
        self.fields: dict[str, object] = fields
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in kind).strip()
        seen = ", ".join(f"{name} = {value}" for name, value in fields.items())
        super().__init__(f"{words}: {seen}" if seen else words, fix=fix)


class UnfinishedBuild(VyreError):
    """A value or kernel has not been built completely.

    The build of a value that threads share failed or was cancelled in another thread, or waits for itself; or a
    kernel is incomplete.
    """

    code = ErrorCode.UNFINISHED_BUILD
    default_fix = "ask for it again."


class UnfinishedProgram(UnfinishedBuild, BuildError):
    """``build`` was called before a kernel's ``with`` blocks ended, or after one of them ended with an exception."""

    default_fix = "build the kernel anew, and ask for it after its `with` block."


class UnreadableFile(VyreError):
    """A file cannot be read or written."""

    code = ErrorCode.UNREADABLE_FILE
    default_fix = "check the path and its permissions."
