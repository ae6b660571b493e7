"""Which stored artifacts depend on a fact that has changed?

Rule: an artifact depends on the facts in its key.  Machine code depends only on device, driver and tool, and on the PTX
from which it was assembled; that PTX has the same key without these three, whether it is stored or not.  Everything
reachable from a change is affected, and nothing else; each affected artifact comes with a shortest path from the change
to it.  O(keys x facts of a key).

Unlike vyre-driver, which keeps a dense table of rules that a cache of some thousand entries cannot afford and never
says why an entry was dropped, this walks the dependencies that the keys state and returns the path as the reason.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.policies.caching.cache_outcome import parts_of, shown
from vyre.policies.record import Reason, record, verdict, why_field

N = TypeVar("N", bound=Hashable)

DIGITS: Final = 12
"""Number of hexadecimal digits of a digest that are shown."""


class Dependency(Enum):
    """A fact that may change: a field of a key that describes the environment, not the launch.

    The value of a member is the name of the field.
    """

    PROGRAM = "program"
    SPEC = "spec"
    EMITTER = "emitter"
    TARGET = "target"
    POLICY = "policy"
    DEVICE = "device"
    DRIVER = "driver"
    TOOL = "tool"


class Fact(NamedTuple):
    """The value of one field of a key.

    ``part`` is the name of the fact or constant where a field holds several, else empty.
    """

    field: Dependency
    part: str
    value: str

    def __str__(self) -> str:
        value = self.value[:DIGITS] if self.field in _DIGESTS else self.value
        named = f"{self.field.value} {self.part} {value}" if self.part else f"{self.field.value} {value}"
        return shown(named)


_Node: TypeAlias = Fact | ArtifactKey


@record
class Change:
    """A selection of changed facts.

    It selects the facts of ``field``, all parts of it, that match ``value``; with ``others``, those that do not match
    it.
    A digest may be given by its first digits, and a tool by its first words: its name, or its name and version.
    """

    field: Dependency
    value: str
    others: bool = False

    def selects(self, fact: Fact) -> bool:
        """Returns whether the change includes ``fact``."""
        return fact.field is self.field and self._matches(fact.value) is not self.others

    def _matches(self, value: str) -> bool:
        if self.field in _DIGESTS:
            return value.startswith(self.value)
        if self.field is Dependency.TOOL:
            words = self.value.split()
            return value.split()[: len(words)] == words
        return value == self.value


@verdict
class Affected:
    """An artifact that depends on a change; ``why`` is the path from the change to ``key``."""

    key: ArtifactKey
    why: Reason = why_field()


def affected_artifacts(
    stored: Iterable[ArtifactKey], changes: Iterable[Change], named: Iterable[ArtifactKey] = ()
) -> tuple[Affected, ...]:
    """Returns the keys of ``stored`` that depend on one of ``changes`` or on a key of ``named``, in their order.

    A key of ``named`` that is stored is itself among them.
    """
    stored, changes = dict.fromkeys(stored), tuple(changes)
    dependents: defaultdict[_Node, list[ArtifactKey]] = defaultdict(list)
    for key in stored | dict.fromkeys(_text_of(key) for key in stored):
        for node in _dependencies(key):
            dependents[node].append(key)
    roots: list[_Node] = [*named]
    roots += [node for node in dependents if isinstance(node, Fact) and any(c.selects(node) for c in changes)]
    before = reached_from(roots, lambda node: dependents.get(node, []))
    return tuple(Affected(key, _why(key, before)) for key in stored if key in before)


def facts_of(key: ArtifactKey) -> Iterator[Fact]:
    """Yields the facts in ``key``; a field that the key leaves empty does not matter to the artifact and yields
    none.
    """
    for field in Dependency:
        if not getattr(key, field.value):
            continue
        if field in _DIGESTS:
            yield Fact(field, "", getattr(key, field.value).hex())
        else:
            yield from (Fact(field, part, value) for part, value in parts_of(key, field.value).items())


def _text_of(key: ArtifactKey) -> ArtifactKey:
    """Returns the key of the PTX from which machine code was assembled; any other key is returned as it is."""
    if key.kind is not ArtifactKind.CUBIN:
        return key
    return replace(key, kind=ArtifactKind.PTX, device=(), driver="", tool="")


def _dependencies(key: ArtifactKey) -> Iterator[_Node]:
    text = _text_of(key)
    if text == key:
        yield from facts_of(key)
    else:
        yield text
        yield from (fact for fact in facts_of(key) if fact.field in _OF_MACHINE_CODE)


def _why(key: ArtifactKey, before: Mapping[_Node, _Node | None]) -> Reason:
    path: list[str] = []
    node = before[key]
    while node is not None:
        path.append(str(node) if isinstance(node, Fact) else f"{node.kind.value} {node.digest.hex()[:DIGITS]}")
        node = before[node]
    return Reason("{}", (" -> ".join(reversed(path)),)) if path else Reason("named by its key")


_DIGESTS: Final = frozenset((Dependency.PROGRAM, Dependency.EMITTER))
_OF_MACHINE_CODE: Final = frozenset((Dependency.DEVICE, Dependency.DRIVER, Dependency.TOOL))


def reached_from(roots: Iterable[N], successors: Callable[[N], Iterable[N]]) -> dict[N, N | None]:
    """Returns every reachable node with its predecessor on a shortest path, which is None for a root.

    The search is breadth-first in the order in which roots and successors are given, so that the nearest nodes come
    first.  O(V + E).
    """
    before: dict[N, N | None] = dict.fromkeys(roots)
    waiting = deque(before)
    while waiting:
        node = waiting.popleft()
        for target in successors(node):
            if target not in before:
                before[target] = node
                waiting.append(target)
    return before
