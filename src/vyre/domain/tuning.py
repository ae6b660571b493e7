"""Records of the tuner: runs of candidates with all their samples, and no conclusions.

A set of records is merged by union, and cut to the latest ones by a total order.  Merging is therefore commutative,
associative and idempotent, and the winner can be determined again at any time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.domain.record import U32, U64, U64_MAX, IntRange, record
from vyre.domain.sealed_json import SealedForm

VERSION: Final = 1
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class KeptRecords(NamedTuple):
    """The numbers of records that are kept: ``of_a_candidate`` under one key, and ``in_all`` of one program."""

    of_a_candidate: int = 8
    in_all: int = 4096


KEPT: Final = KeptRecords()


class TimeKind(Enum):
    """The source of times: clocks of the device or of the host, or a model that measured nothing."""

    DEVICE = "device"
    HOST = "host"
    ESTIMATED = "estimated"

    @property
    def is_measured(self) -> bool:
        """Whether the times come from a clock."""
        return self is not TimeKind.ESTIMATED


PADDED: Final = "padded grid"
"""The profile of a candidate whose code is the usual, and whose grid is rounded up to powers of two."""
Time: TypeAlias = Annotated[int, IntRange(1, U64_MAX)]
Size: TypeAlias = Annotated[int, IntRange(1, 2**32 - 1)]


@record
class TuningKey:
    """The launches for which a time is valid.

    ``program``: the digest, in hexadecimal.
    ``spec``: canonical bytes of the constants, in hexadecimal.
    ``bucket``: the bit length of the number of lanes.
    ``device`` and ``driver``: the names that the backend gives them.
    ``versions``: versions of all software that generates code or runs it.
    ``declared``: lanes of a workgroup, per axis.
    ``settings``: the rest of the config that determines what runs.
    """

    program: str
    spec: str
    bucket: U32
    backend: str
    device: str
    driver: str
    versions: str
    declared: tuple[Size, Size, Size]
    settings: str = ""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.program):
            raise InvalidField(
                record="TuningKey", field="program", value=self.program, expected="64 hexadecimal digits"
            )


KEY_FIELDS: Final = tuple(TuningKey.__dataclass_fields__)


@record
class Candidate:
    """A way to launch a program: ``size`` lanes of a workgroup along x, and a code generation ``profile``, empty for
    the usual one, or ``PADDED``, or other values of static parameters of a kernel, such as ``tile=16, rows=4``.
    """

    size: Size
    profile: str = ""

    @property
    def constants(self) -> dict[str, int]:
        """The values of static parameters, by name."""
        return {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", self.profile)}

    def __str__(self) -> str:
        return f"workgroup {self.size}" + (f", {self.profile}" if self.profile else "")


@record
class TuningRecord:
    """One candidate of one run of the tuner.

    ``run``: an id drawn for each run.
    ``place``: the position of the candidate in the run, 0 for the one in use.
    ``of``: the number of candidates in the run.
    ``samples``: in the order of the rounds, in ns or in units of the model.
    ``matched``: whether the bytes equalled those of the reference; a candidate with other bytes has no samples.
    ``at_s``: the end of the run, in seconds since the epoch.
    """

    key: TuningKey
    candidate: Candidate
    kind: TimeKind
    run: str
    place: U32
    of: U32
    samples: tuple[Time, ...]
    matched: bool
    at_s: U64

    def __post_init__(self) -> None:
        if self.place >= self.of:
            raise InvalidField(record="TuningRecord", field="place", value=self.place, expected=f"below {self.of}")
        if self.samples and not self.matched:
            raise InvalidField(record="TuningRecord", field="samples", value=self.samples, expected="()")


def bucket_of(lanes: int) -> int:
    """Returns the bucket of a launch; launches of one bucket differ by less than a factor of two."""
    return lanes.bit_length()


def merge(*sets: Iterable[TuningRecord], kept: KeptRecords = KEPT) -> tuple[TuningRecord, ...]:
    """Returns the union, latest first, cut to ``kept``.

    A record that is cut has enough later records before it, of its candidate or of all, and therefore also in every
    larger set: merging parts first loses nothing that merging all at once would keep.
    """
    latest = sorted(set().union(*sets), key=_order)
    seen: Counter[tuple[TuningKey, Candidate, TimeKind]] = Counter()
    records = []
    for one in latest:
        of = (one.key, one.candidate, one.kind)
        seen[of] += 1
        if seen[of] <= kept.of_a_candidate:
            records.append(one)
    return tuple(records[: kept.in_all])


_key_order: Final = attrgetter(*KEY_FIELDS)


def _order(tuned: TuningRecord) -> tuple[Any, ...]:
    """Sorts latest first, the candidates of a run together; the order is total because it compares every field."""
    candidate = tuned.candidate
    place = (tuned.run, tuned.place, tuned.of, tuned.kind.value, tuned.matched)
    return (-tuned.at_s, *place, candidate.size, candidate.profile, tuned.samples, _key_order(tuned.key))


# ---- lines
def to_line(tuned: TuningRecord) -> str:
    """Returns canonical JSON that carries its own digest, without a line end."""
    return _FORM.seal(to_json(tuned))


def from_line(line: str | bytes) -> TuningRecord:
    """Returns the record that ``to_line`` wrote; raises ``MalformedJson`` for any other text."""
    return _FORM.read(line, _record_of, to_line)


def to_json(tuned: TuningRecord) -> dict[str, Any]:
    """Returns the record as a JSON object without a digest."""
    return {
        "version": VERSION,
        "key": key_json(tuned.key),
        "size": tuned.candidate.size,
        "profile": tuned.candidate.profile,
        "kind": tuned.kind.value,
        "run": tuned.run,
        "place": tuned.place,
        "of": tuned.of,
        "samples": list(tuned.samples),
        "matched": tuned.matched,
        "at_s": tuned.at_s,
    }


def _record_of(content: dict[str, Any]) -> TuningRecord:
    return TuningRecord(
        key=key_of(content["key"]),
        candidate=Candidate(content["size"], content["profile"]),
        kind=TimeKind(content["kind"]),
        run=content["run"],
        place=content["place"],
        of=content["of"],
        samples=tuple(content["samples"]),
        matched=content["matched"],
        at_s=content["at_s"],
    )


def key_json(key: TuningKey) -> dict[str, Any]:
    """Returns the key as a JSON object."""
    return {name: getattr(key, name) for name in KEY_FIELDS} | {"declared": list(key.declared)}


def key_of(content: dict[str, Any]) -> TuningKey:
    """Returns the key that ``key_json`` wrote; raises ``InvalidField``, ``KeyError`` or ``TypeError`` for other
    objects.
    """
    return TuningKey(**content | {"declared": tuple(content["declared"])})


_FORM: Final = SealedForm.of(
    b"vyre.tuning.v1", "not of the tuner", "tune again, or copy the file again from where it is whole.", VERSION
)
