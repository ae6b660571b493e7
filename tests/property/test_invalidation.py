"""Invalidation of any cache by any change: exactly what depends on it goes, and the report says so."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from support.disk_cache import artifact, store
from vyre.app.invalidation import Invalid, InvalidationReport, invalidate
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.ports.artifact_store import ArtifactStore, StoredEntry
from vyre.testing.fakes import MemoryArtifactStore

PROGRAMS: Final = (b"\xab" * 32, b"\xab" * 31 + b"\xac", b"\xcd" * 32)
EMITTERS: Final = (b"\x11" * 32, b"\x22" * 32)
DRIVERS: Final = ("13000", "12090")
TOOLS: Final = ("ptxas 13.0.88", "ptxas 13.0.88 -O3", "ptxas 13.0.8", "nvJitLink 13.0")
TARGETS: Final = ("sm_90", "sm_9", "sm_120")

texts: Final = st.builds(
    ArtifactKey,
    kind=st.just(ArtifactKind.PTX),
    target=st.sampled_from(TARGETS),
    emitter=st.sampled_from(EMITTERS),
    program=st.sampled_from(PROGRAMS),
    workgroup=st.sampled_from([(1, 1, 1), (64, 1, 1)]),
)
cubins: Final = st.builds(
    lambda text, driver, tool: replace(
        text, kind=ArtifactKind.CUBIN, device=(("sm", text.target),), driver=driver, tool=tool
    ),
    texts,
    st.sampled_from(DRIVERS),
    st.sampled_from(TOOLS),
)
verdicts: Final = st.builds(
    ArtifactKey,
    kind=st.just(ArtifactKind.VERDICT),
    emitter=st.sampled_from(EMITTERS),
    program=st.sampled_from(PROGRAMS),
)
keys: Final = st.lists(st.one_of(texts, cubins, verdicts), max_size=12, unique=True)
invalids: Final = st.fixed_dictionaries(
    {},
    optional={
        "key": st.one_of(texts, cubins),
        "program": st.sampled_from([PROGRAMS[0].hex(), "abababab", "cdcdcdcd"]),
        "driver": st.sampled_from([*DRIVERS, "1"]),
        "tool": st.sampled_from([*TOOLS, "ptxas", "ptxas 13.0.88 -O"]),
        "emitter": st.sampled_from(["11111111", EMITTERS[1].hex()]),
        "target": st.sampled_from([*TARGETS, "sm_"]),
    },
).filter(bool)


def expected(key: ArtifactKey, named: dict[str, Any]) -> bool:
    """By the meaning of each option, without a graph."""
    tool = str(named.get("tool", "-"))
    made_of = replace(key, kind=ArtifactKind.PTX, device=(), driver="", tool="")
    return (
        key == named.get("key")
        or (key.kind is ArtifactKind.CUBIN and made_of == named.get("key"))
        or key.program.hex().startswith(named.get("program", "-"))
        or key.emitter.hex().startswith(named.get("emitter", "-"))
        or key.driver == named.get("driver", "-")
        or key.target == named.get("target", "-")
        or f"{key.tool} ".startswith(f"{tool} ")
    )


class Stubborn(MemoryArtifactStore):
    """Keeps some of its entries, and has others in a layer that is only read."""

    def __init__(self, stuck: frozenset[ArtifactKey], lower: frozenset[ArtifactKey]) -> None:
        super().__init__()
        self._stuck, self._lower = stuck, lower

    def entries(self) -> Any:
        return iter([*super().entries(), *(StoredEntry(key, 9, "image") for key in self._lower)])

    def remove(self, key: ArtifactKey, /) -> bool:
        return key not in self._stuck and super().remove(key)


def listed(found: ArtifactStore) -> set[StoredEntry]:
    return set(found.entries())


def check(found: ArtifactStore, named: dict[str, Any]) -> InvalidationReport:
    before = listed(found)
    told = invalidate(found, Invalid(**named), dry_run=True)
    assert listed(found) == before
    report = invalidate(found, Invalid(**named))
    after = listed(found)
    assert {StoredEntry(e.key, e.nbytes, e.layer) for e in report.removed} == before - after
    assert {StoredEntry(e.key, e.nbytes, e.layer) for e in report.failed} == {
        e for e in after if expected(e.key, named)
    }
    assert {e.key for e in (*report.removed, *report.failed)} == {e.key for e in before if expected(e.key, named)}
    assert report.kept == len(before) - len(report.removed) - len(report.failed)
    assert all(e.why and "\n" not in e.why for e in (*report.removed, *report.failed))
    assert {e[:2] for e in told.removed} >= {e[:2] for e in report.removed}
    return report


@given(keys, invalids, st.data())
def test_exactly_what_depends_on_a_change_goes(held: list[ArtifactKey], named: dict[str, Any], data: Any) -> None:
    some = st.frozensets(st.sampled_from(held), max_size=4) if held else st.just(frozenset[ArtifactKey]())
    found = Stubborn(data.draw(some), data.draw(some))
    for number, key in enumerate(held):
        found.put(key, artifact(number))
    check(found, named)


@given(keys, invalids)
def test_on_disk_too(held: list[ArtifactKey], named: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = store(Path(folder) / "cache")
        for number, key in enumerate(held):
            assert found.put(key, artifact(number))
        assert check(found, named).failed == ()


@given(keys, invalids, invalids)
def test_changes_add_up(held: list[ArtifactKey], first: dict[str, Any], second: dict[str, Any]) -> None:
    """Two changes at once take what they take one after the other."""
    left = []
    for steps in ([first, second], [{**second, **first}, {**first, **second}]):
        found = MemoryArtifactStore()
        for key in held:
            found.put(key, artifact())
        for named in steps:
            invalidate(found, Invalid(**named))
        left.append(set(found))
    assert left[0] == left[1]
