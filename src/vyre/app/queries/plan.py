"""Plans and results of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre.domain.errors import UnknownOutput
from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.domain.upload_reuse import UploadReuse

if TYPE_CHECKING:
    import numpy.typing as npt


class QueryGroup(NamedTuple):
    """The ``queries`` that are in memory at once, by their numbers, and their bytes.

    ``resident_bytes`` includes what all queries share.
    """

    queries: range
    frontier_bytes: int
    output_bytes: int
    resident_bytes: int


@frozen
class QueriesPlan:
    """How so many queries are run; ``print`` it.

    ``is_batched``: whether the queries of a group are one launch, else each is a launch of its own; ``why`` is the
    reason.  ``groups``: the queries that are in memory at the same time.  ``reuse``: the upload of what they share, and
    the uploads that its staying on the device avoids.
    """

    queries: int
    is_batched: bool
    why: str
    groups: tuple[QueryGroup, ...]
    reuse: UploadReuse

    @property
    def launches(self) -> int:
        """Returns the number of launches."""
        return len(self.groups) if self.is_batched else self.queries

    @property
    def upload_bytes(self) -> int:
        """Returns the bytes that are copied to the device for the queries, without what they share."""
        return sum(group.frontier_bytes for group in self.groups)

    @property
    def peak_resident_bytes(self) -> int:
        """Returns the most bytes that are in the memory of the device at once, with what the queries share."""
        return max((group.resident_bytes for group in self.groups), default=0)

    @property
    def avoided_launches(self) -> int:
        """Returns the launches, and the waits of the host, that one for each query would take in addition."""
        return self.queries - len(self.groups)

    def __str__(self) -> str:
        reuse, groups = self.reuse, self.groups
        lines = [
            f"{self.queries} queries, {self.launches} launches in {len(groups)} groups: {self.why}",
            f"  memory: {self.peak_resident_bytes} bytes at most",
            f"  uploads: {self.upload_bytes} bytes for the queries, {reuse.upload_bytes} shared ones once;"
            f" {reuse.avoided_upload_bytes} avoided",
        ]
        lines += [
            f"  group of {len(group.queries)}: {group.resident_bytes} bytes, of which {group.frontier_bytes} are"
            f" uploaded and {group.output_bytes} are outputs"
            for group in groups
        ]
        return "\n".join(lines)


class QueryResults(Mapping[str, "npt.NDArray[Any]"]):
    """The outputs of queries by name: arrays with one row for each query.

    ``plan`` tells how they were run, and ``wall_ns`` in how many nanoseconds.
    """

    __slots__ = ("_arrays", "plan", "wall_ns")

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], plan: QueriesPlan, wall_ns: int) -> None:
        self._arrays = dict(arrays)
        self.plan: QueriesPlan = plan
        self.wall_ns: int = wall_ns

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Returns the array of that name; raises ``UnknownOutput``, a ``KeyError``."""
        try:
            return self._arrays[name]
        except (KeyError, TypeError):
            known = ", ".join(f"`{each}`" for each in self._arrays)
            raise UnknownOutput(
                f"the results have no output {shown(name)}", fix=f"the outputs are {known or 'none'}."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self._arrays.items())
        return f"<QueryResults {arrays or 'without outputs'} of {self.plan.queries} queries>"
