"""Lowerings: another way for one target to compute an operation, used only after it was checked there.

A verdict belongs to the very definition, the very lowering and the very version of the backend; a change of any of the
three leaves the operation to its definition until the lowering has passed again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from vyre.domain.dialects.laws.checker import boundary_values
from vyre.domain.errors import InvalidField
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import is_nan
from vyre.domain.plain_values import counts, flags, texts
from vyre.domain.record import U64_MAX
from vyre.domain.sealed_json import SealedForm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.unsignedinteger[Any]]

Computed: TypeAlias = "Callable[[Sequence[Column]], Column]"
"""From a column of bit patterns for each parameter to the column of results: u32, or u64 for types of 64 bits."""

SAMPLES: Final = 1 << 16
"""Random operands that are tried beside the combinations of boundary values."""
MOST_BOUNDARIES: Final = 1 << 14
MOST_ATTRIBUTES: Final = 16
CHUNK: Final = 1 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_FORM: Final = SealedForm.of(
    b"vyre.lowering.v1", "not a verdict on a lowering", "remove the file; the lowering is checked again."
)


@dataclass(frozen=True)
class LoweringKey:
    """The subject of a verdict.

    ``definition`` and ``lowering`` are digests in hexadecimal, ``version`` is that of the backend and of all that
    compiles for it.  Raises ``InvalidField`` for a digest that is none.
    """

    operation: str
    definition: str
    lowering: str
    backend: str
    version: str

    def __post_init__(self) -> None:
        for name in ("definition", "lowering"):
            if not _DIGEST.match(getattr(self, name)):
                value, expected = getattr(self, name), "64 hexadecimal digits"
                raise InvalidField(record="LoweringKey", field=name, value=value, expected=expected)


class LoweringDifference(NamedTuple):
    """Operands for which a lowering gives another result than the definition; all are bit patterns."""

    operands: tuple[int, ...]
    expected: int
    found: int


@dataclass(frozen=True)
class LoweringVerdict:
    """Whether a lowering may be used: ``cases`` operands were tried, all there are if ``is_exhaustive``."""

    key: LoweringKey
    cases: int
    is_exhaustive: bool
    difference: LoweringDifference | None = None

    @property
    def is_usable(self) -> bool:
        """Whether operands were tried and the lowering agreed with the definition on all of them."""
        return self.cases > 0 and self.difference is None

    def __str__(self) -> str:
        key = self.key
        about = f"`{key.operation}` on {key.backend} ({key.version})"
        if self.difference is not None:
            operands = ", ".join(f"{bits:#x}" for bits in self.difference.operands)
            computed, expected = self.difference.found, self.difference.expected
            return f"{about}: refused: {computed:#x} instead of {expected:#x} for the operands {operands}"
        tried = f"all {self.cases} operands" if self.is_exhaustive else f"samples only, {self.cases} operands"
        return f"{about}: passed on {tried}"


def check_lowering(
    key: LoweringKey,
    parameters: Sequence[ScalarType],
    result: ScalarType,
    definition: Computed,
    lowered: Computed,
    attributes: frozenset[int] = frozenset(),
    *,
    most_values: int = 1 << 22,
    seed: int = 0,
) -> LoweringVerdict:
    """Returns the verdict on a lowering after computing operands both ways, up to the first difference.

    All operands are tried if there are at most ``most_values`` of them, else combinations of boundary values and
    random ones.  Those at the places ``attributes`` are constant in a column.  Results are equal if they have the same
    bits or are both NaN.  Raises what the computations raise.
    """
    import numpy as np

    counts = [2 if t is ScalarType.BOOL else 1 << t.bits for t in parameters]
    is_exhaustive = not attributes and int(np.prod(counts, dtype=object)) <= most_values
    cases = 0
    for columns in _all_operands(parameters, counts) if is_exhaustive else _sampled(parameters, attributes, seed):
        expected, actual = definition(columns), lowered(columns)
        cases += len(expected)
        for place in np.flatnonzero(expected != actual).tolist():
            first, second = int(expected[place]), int(actual[place])
            if is_nan(result, first) and is_nan(result, second):
                continue
            operands = tuple(int(column[place]) for column in columns)
            return LoweringVerdict(key, cases, False, LoweringDifference(operands, first, second))
    return LoweringVerdict(key, cases, is_exhaustive)


def _storage(dtype: ScalarType) -> type[np.unsignedinteger[Any]]:
    import numpy as np

    return np.uint64 if dtype.bits == 64 else np.uint32


def _all_operands(parameters: Sequence[ScalarType], counts: Sequence[int]) -> Iterator[list[Column]]:
    import numpy as np

    total = int(np.prod(counts, dtype=object))
    for start in range(0, total, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, total), dtype=np.uint64)
        columns = []
        for dtype, count in zip(parameters, counts, strict=True):
            columns.append((numbers % np.uint64(count)).astype(_storage(dtype)))
            numbers = numbers // np.uint64(count)
        yield columns


def _sampled(parameters: Sequence[ScalarType], attributes: frozenset[int], seed: int) -> Iterator[list[Column]]:
    """Yields columns of samples, one list for each of at most ``MOST_ATTRIBUTES`` combinations of the attributes."""
    import numpy as np

    source = random.Random(seed)
    values = [boundary_values(dtype, is_constant=True) for dtype in parameters]
    fixed = list(product(*[values[place] for place in sorted(attributes)]))
    for chosen in source.sample(fixed, min(len(fixed), MOST_ATTRIBUTES)):
        bits_of = dict(zip(sorted(attributes), chosen, strict=True))
        choices = [[bits_of[place]] if place in bits_of else each for place, each in enumerate(values)]
        total = int(np.prod([len(each) for each in choices], dtype=object))
        if total <= MOST_BOUNDARIES:
            rows: list[tuple[int, ...]] = list(product(*choices))
        else:
            rows = [tuple([source.choice(each) for each in choices]) for _ in range(MOST_BOUNDARIES)]
        bits = [1 if dtype is ScalarType.BOOL else dtype.bits for dtype in parameters]
        rows += [
            tuple([bits_of[k] if k in bits_of else source.getrandbits(count) for k, count in enumerate(bits)])
            for _ in range(SAMPLES)
        ]
        yield [np.asarray(column, _storage(t)) for column, t in zip(zip(*rows, strict=True), parameters, strict=True)]


def verdict_text(verdict: LoweringVerdict) -> str:
    """Returns the verdict as one line of JSON with a digest."""
    content = {"key": vars(verdict.key), "cases": verdict.cases, "exhaustive": verdict.is_exhaustive}
    return _FORM.seal(content | {"difference": verdict.difference})


def verdict_of_text(text: str | bytes) -> LoweringVerdict:
    """Returns the verdict that ``verdict_text`` wrote; raises ``MalformedJson`` for any other text."""
    return _FORM.read(text, _verdict_of, verdict_text)


def _verdict_of(content: dict[str, Any]) -> LoweringVerdict:
    key, cases, is_exhaustive, difference = map(content.__getitem__, ("key", "cases", "exhaustive", "difference"))
    wrong = None if difference is None else LoweringDifference(tuple(difference[0]), *difference[1:])
    numbers = (cases,) if wrong is None else (cases, wrong.expected, wrong.found, *wrong.operands)
    if not (texts(*key.values()) and flags(is_exhaustive) and counts(*numbers, most=U64_MAX)):
        raise ValueError("a field has another type")
    return LoweringVerdict(LoweringKey(**key), cases, is_exhaustive, wrong)
