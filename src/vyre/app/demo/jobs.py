"""The demo's jobs: a kernel of the gallery, its real input, and the answer computed without vyre."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Final

import blake3
import numpy as np

from vyre.app.demo.material import StandardLibrary, photograph, standard_library
from vyre.domain.frozen import frozen
from vyre.domain.ir.program import Program
from vyre.gallery.applications import (
    bfs,
    bitonic_sort,
    blake3_chunks,
    byte_histogram,
    components,
    dfa_scan,
    mandelbrot,
    prefix_scan,
    sobel,
    word_count,
)
from vyre.gallery.applications.graphs import compressed_rows, plain_bfs, plain_components
from vyre.gallery.example import Array, Dispatcher

TEXT_BYTES: Final = 1 << 20
SORTED_LINES: Final = 1 << 14
PATTERNS: Final = (b"import ", b"def ", b"class ", b"return", b"self.", b"except", b"lambda", b"yield")
VIEW: Final[mandelbrot.View] = {"left": -2.2, "top": -1.2, "step": 0.01, "rounds": 60}
VIEW_SHAPE: Final = (240, 320)


@frozen
class Job:
    """One kernel of the demo with its input and its check.

    ``run`` computes the answer with vyre, ``expected`` the one to compare it with, bit for bit. ``picture`` converts
    the answer to pixels, which are written under the job's name.
    """

    name: str
    size: str
    program: Callable[[], Program]
    run: Callable[[Dispatcher, Program], Array]
    expected: Callable[[], Array]
    checked_by: str
    picture: Callable[[Array], Array] | None = None


def all_jobs() -> list[Job]:
    """Reads the input data and returns every job; raises ``UnreadableFile``."""
    library = standard_library(TEXT_BYTES)
    return [*_text_jobs(library.text), *_line_jobs(library.text), *_graph_jobs(library), *_picture_jobs()]


def _text_jobs(text: bytes) -> list[Job]:
    data = np.frombuffer(text, np.uint8)
    size = f"{len(text):,} bytes of Python"
    machine = dfa_scan.automaton(PATTERNS)
    return [
        Job(
            "scan for patterns",
            f"{len(PATTERNS)} in {size}",
            dfa_scan.EXAMPLE.program,
            lambda session, program: dfa_scan.scan(session, program, data, machine),
            lambda: dfa_scan.occurrences(text, PATTERNS),
            "re",
        ),
        Job(
            "byte histogram",
            size,
            byte_histogram.EXAMPLE.program,
            lambda session, program: byte_histogram.histogram(session, program, data),
            lambda: byte_histogram.counted(text),
            "collections.Counter",
        ),
        Job(
            "lines and words",
            size,
            word_count.EXAMPLE.program,
            lambda session, program: session.dispatch(program, {"text": data})["counts"],
            lambda: np.array([text.count(b"\n"), len(text.split())], np.uint32),
            "bytes.split",
        ),
        Job(
            "BLAKE3",
            size,
            blake3_chunks.EXAMPLE.program,
            lambda session, program: np.frombuffer(blake3_chunks.digest(session, program, data), np.uint8),
            lambda: np.frombuffer(blake3.blake3(text).digest(), np.uint8),
            "blake3",
        ),
    ]


def _line_jobs(text: bytes) -> list[Job]:
    lines = text.splitlines(keepends=True)
    lengths = np.array([len(line) for line in lines], np.uint32)
    prefixes = np.array([int.from_bytes(line[:4].ljust(4), "big") for line in lines[:SORTED_LINES]], np.uint32)
    return [
        Job(
            "where lines end",
            f"{len(lines):,} line lengths",
            prefix_scan.EXAMPLE.program,
            lambda session, program: session.dispatch(program, {"data": lengths})["sums"],
            lambda: np.array(list(accumulate(lengths.tolist())), np.uint32),
            "itertools.accumulate",
        ),
        Job(
            "sort lines by prefix",
            f"{prefixes.size:,} lines",
            bitonic_sort.EXAMPLE.program,
            lambda session, program: bitonic_sort.sort(session, program, prefixes),
            lambda: np.array(sorted(prefixes.tolist()), np.uint32),
            "sorted()",
        ),
    ]


def _graph_jobs(library: StandardLibrary) -> list[Job]:
    nodes, edges = len(library.modules), library.imports
    row_ptr, col = compressed_rows(nodes, edges)
    ends = np.array(edges, np.uint32).reshape(-1, 2)
    src, dst = ends[:, 0].copy(), ends[:, 1].copy()
    start = library.index("asyncio")
    size = f"{nodes:,} modules, {len(edges):,} imports"
    return [
        Job(
            f"imports from {library.modules[start]}",
            size,
            bfs.EXAMPLE.program,
            lambda session, program: bfs.bfs(session, program, row_ptr, col, start),
            lambda: plain_bfs(nodes, edges, start),
            "a plain BFS",
        ),
        Job(
            "groups of modules",
            size,
            components.EXAMPLE.program,
            lambda session, program: components.components(session, program, nodes, src, dst),
            lambda: plain_components(nodes, edges),
            "union-find",
        ),
    ]


def _picture_jobs() -> list[Job]:
    photo = photograph()
    return [
        Job(
            "edges",
            f"{photo.shape[1]} x {photo.shape[0]} photograph",
            sobel.EXAMPLE.program,
            lambda session, program: sobel.edges(session, program, photo),
            lambda: sobel.edges_by_numpy(photo),
            "NumPy",
            lambda answer: np.hstack((photo, answer)),
        ),
        Job(
            "mandelbrot",
            f"{VIEW_SHAPE[1]} x {VIEW_SHAPE[0]} pixels",
            mandelbrot.EXAMPLE.program,
            lambda session, program: mandelbrot.escape_counts(session, program, VIEW_SHAPE, **VIEW),
            lambda: mandelbrot.counts_by_numpy(VIEW_SHAPE, **VIEW),
            "NumPy",
            lambda answer: (answer * 255 // VIEW["rounds"]).astype(np.uint8),
        ),
    ]
