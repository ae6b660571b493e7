"""Many queries as one launch, and many copies as one or two: bytes, counters, and what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import Program, ProgramBuilder, ResidentArray, Session, u32
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.errors import InvalidInput, PlanError
from vyre.testing.outcomes import Outcome, Verdict

_WORDS: Final = 16
"""Of a slot; as many are between two slots."""


class _Sizes(NamedTuple):
    nodes: int
    queries: int
    slots: int


_FULL: Final = _Sizes(1000, 64, 10_000)
_REHEARSAL: Final = _Sizes(100, 8, 60)


def hop() -> Program:
    """``reached = start[source] + k``, over a graph of one edge into each node."""
    with ProgramBuilder("hop", workgroup=32) as p:
        sources, start, k = p.input("sources", u32), p.input("start", u32), p.param("k", u32)
        reached = p.output("reached", u32, like="start")
        i = p.global_id()
        with p.if_(i < start.length):
            reached[i] = start[sources[i]] + k
    return p.build()


def queries(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("queries", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    sizes = _REHEARSAL if context.emulated else _FULL
    nodes, count = sizes.nodes, sizes.queries
    sources = np.roll(np.arange(nodes, dtype=np.uint32), 7)
    starts = np.arange(count * nodes, dtype=np.uint32).reshape(count, nodes)
    keys = np.arange(count, dtype=np.uint32)
    columns = {"start": starts, "k": keys}
    wanted = starts[:, sources] + keys[:, None]
    with session_on(backend_with(context.backend, CudaOptions(graph_after=None))) as session:
        with session.queries(hop(), {"sources": sources}) as asked:
            found: list[Array] = []
            first = spent(session, lambda: found.append(asked(columns)["reached"]))
            plan = asked.plan(columns)
            again = spent(session, lambda: found.append(asked(columns)["reached"]))
        for time, rows in zip(("first", "second"), found, strict=True):
            yield same(f"{count} queries, {time} time", rows, wanted)
        yield counted(
            "queries are one launch and one wait",
            again,
            kernel_launches=1,
            sync_points=1,
            uploaded_bytes=plan.upload_bytes,
            downloaded_bytes=wanted.nbytes,
            resident_bytes=0,
        )
        graph, own = sources.nbytes, starts.nbytes + keys.nbytes
        with session.queries(hop(), {"sources": sources}) as asked:
            resident = spent(session, lambda: asked(columns))["uploaded_bytes"] + graph
        yield judged(
            "the graph is uploaded once",
            resident == first["uploaded_bytes"] + graph == graph + own,
            f"{first['uploaded_bytes']}",
        )
        anew = spent(session, partial(_one_by_one, session, sources, starts, keys))
        avoided = plan.reuse.avoided_upload_bytes
        yield Fact("bytes of uploads", {"resident": resident, "anew": anew["uploaded_bytes"], "avoided": avoided})
        yield judged(
            "uploading anew takes the bytes that were avoided",
            anew["uploaded_bytes"] - resident == avoided == (count - 1) * graph,
            f"{anew['uploaded_bytes']} bytes anew, {resident} resident, {avoided} avoided",
        )
        yield counted("queries one by one", anew, kernel_launches=count)
        budget = graph + (count // 2) * (starts[0].nbytes + 4 + wanted[0].nbytes)
        with session.queries(hop(), {"sources": sources}, budget=budget) as asked:
            halves = asked(columns)
            yield same("queries within a budget", halves["reached"], wanted)
            yield judged("a budget divides queries", halves.plan.launches == 2, f"{halves.plan.launches} launches")
        small = session.queries(hop(), {"sources": sources}, budget=graph)
        yield refused("a budget that holds no query", lambda: small(columns), PlanError)
        small.close()


def _one_by_one(session: Session, sources: Array, starts: Array, keys: Array) -> None:
    """The graph is uploaded for each query, and as many other bytes as a query has."""
    for row, k in zip(starts, keys, strict=True):
        with session.resident(sources) as graph, session.resident(np.append(row, k)) as own:
            session.dispatch(hop(), {"sources": graph, "start": own[: row.size], "k": k})


def packing(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("packing", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    count = (_REHEARSAL if context.emulated else _FULL).slots
    content = np.arange(2 * count * _WORDS, dtype=np.uint32).reshape(2 * count, _WORDS)
    with session_on(backend_with(context.backend, CudaOptions(graph_after=None))) as session:
        with session.resident(content) as held:
            parts = [held[2 * i : 2 * i + 1] for i in range(count)]
            yield from _packed(session, held, parts, content)
            yield from _slots(session, held, content)
            yield from _marked(session, held, content)
        yield from _written(session, content[:64])


def _packed(session: Session, held: ResidentArray, parts: list[ResidentArray], content: Array) -> Iterator[Finding]:
    count, nbytes = len(parts), len(parts) * 4 * _WORDS
    read = session.bind_download(parts, most_packed=4 * _WORDS)
    read()
    found: list[Array] = []
    work = spent(session, lambda: found.append(np.concatenate(read())))
    yield same(f"{count} results, packed", found[0], content[::2])
    yield counted("packed results are one copy", work, downloads=1, downloaded_bytes=nbytes, kernel_launches=1)
    held[:1].upload(content[1:2])
    yield same("a bound download reads the present content", read()[0], content[1:2])
    held[:1].upload(content[:1])
    few = parts[:40]
    work = spent(session, lambda: found.append(np.concatenate(session.download(few, most_packed=0))))
    yield same("results one by one", found[1], content[: 2 * len(few) : 2])
    yield counted("without packing each result is a copy", work, downloads=len(few), kernel_launches=0)


def _slots(session: Session, held: ResidentArray, content: Array) -> Iterator[Finding]:
    slots = content.reshape(-1, 2 * _WORDS)
    lengths = (np.arange(len(slots)) * 7 % (2 * _WORDS + 1)).astype(np.uint32)
    with session.resident(lengths) as known:
        report = session.download_slots(held.view(), known, capacity=2 * _WORDS).report
        found: list[Array] = []
        work = spent(session, lambda: found.extend(session.download_slots(held.view(), known, capacity=2 * _WORDS)))
        used = np.concatenate([row[:length] for row, length in zip(slots, lengths, strict=True)])
        yield same("the used part of every slot", np.concatenate(found), used)
        yield judged("slots come in one or two copies", work["downloads"] in (1, 2), str(work))
        yield counted("slots copy what was planned", work, downloads=report.copies, downloaded_bytes=report.nbytes)
    with session.resident(np.full(len(slots), 2 * _WORDS + 1, np.uint32)) as wrong:
        yield refused(
            "a length beyond its slot",
            lambda: session.download_slots(held.view(), wrong, capacity=2 * _WORDS),
            InvalidInput,
        )


def _marked(session: Session, held: ResidentArray, content: Array) -> Iterator[Finding]:
    marks = (np.arange(len(content)) % 3 == 1).astype(np.uint32)
    where = np.flatnonzero(marks)
    with session.resident(marks) as marked:
        for limit in (where.size, where.size - 1):
            found = session.download_marked(held, marked, limit=limit)
            yield same(f"marked items, at most {limit}", found.items, content[where[:limit]])
            right = (found.emitted, found.overflow) == (where.size, where.size - limit)
            yield judged(f"the items beyond {limit} are counted", right, f"{found.emitted}, {found.overflow}")


def _written(session: Session, content: Array) -> Iterator[Finding]:
    rows = [content + np.uint32(k) for k in range(3)]
    with session.resident(np.zeros_like(content)) as target:
        writes = [(target[:40], rows[0][:40]), (target[40:], rows[1][40:]), (target[30:50], rows[2][30:50])]
        work = spent(session, lambda: session.upload(writes))
        wanted = np.concatenate([rows[0][:30], rows[2][30:50], rows[1][50:]])
        yield same("of overlapping writes the later wins", target.download(), wanted)
        yield counted("writes that touch are one copy", work, uploads=1, uploaded_bytes=content.nbytes)
