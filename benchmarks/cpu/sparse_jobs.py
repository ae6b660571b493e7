"""Jobs with irregular memory or flow: automata, graphs, sorting, sparse matrices, softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.cpu import programs
from benchmarks.cpu.job import Array, Data, Job, Side
from benchmarks.cpu.launches import Memory, in_order, one_launch
from vyre import Session, Step
from vyre.gallery.applications import dfa_scan, spmv
from vyre.gallery.applications.graphs import UNREACHED

PATTERNS: Final = (b"import ", b"def ", b"class ", b"return", b"self.", b"except", b"lambda", b"yield")
_CHUNK: Final = 1024
_MOST_LEVELS: Final = 64


# ---------------------------------------------------------------- scan with an automaton
def _dfa_data(n: int) -> dict[str, Any]:
    """Returns a text of random letters, in which a pattern occurs about every 200 bytes."""
    source = np.random.default_rng(8)
    text = np.frombuffer(b"abcdefghilmnoprstuxy .\n", np.uint8)[source.integers(0, 23, n)].copy()
    for at in source.integers(0, n - 8, n // 200).tolist():
        pattern = np.frombuffer(PATTERNS[at % len(PATTERNS)], np.uint8)
        text[at : at + pattern.size] = pattern
    machine = dfa_scan.automaton(PATTERNS)
    return {"text": text, "table": machine.table, "accepting": machine.accepting, "warm_up": machine.longest - 1}


def _dfa(session: Session, data: Data) -> Side:
    program = dfa_scan.dfa_scan_by_builder(_CHUNK)
    extent = -(-data["text"].size // _CHUNK)
    return one_launch(session, program, data, "visits", np.zeros_like(data["accepting"]), extent=extent)


def _dfa_expected(data: Data) -> Array:
    """Runs the automaton over all chunks side by side, from the bytes before them on that decide its state."""
    table = data["table"].reshape(-1, 256)
    text, accepting = data["text"], data["accepting"]
    starts = np.arange(0, text.size, _CHUNK)
    warm_up = data["warm_up"]
    state = np.zeros(starts.size, np.uint32)
    visits = np.zeros(accepting.size, np.uint32)
    for offset in range(-warm_up, _CHUNK):
        at = starts + offset
        inside = (at >= 0) & (at < text.size)
        state[inside] = table[state[inside], text[at[inside]]]
        if offset >= 0:
            visits += np.bincount(state[inside], minlength=visits.size).astype(np.uint32) * accepting
    return visits


# ---------------------------------------------------------------- breadth-first search
def random_rows(nodes: int, edges: int, seed: int) -> tuple[Array, Array]:
    """Returns the rows of a random directed graph: ``(row_ptr, col)``."""
    source = np.random.default_rng(seed)
    starts, ends = source.integers(0, nodes, edges), source.integers(0, nodes, edges)
    order = np.lexsort((ends, starts))
    row_ptr = np.searchsorted(starts[order], np.arange(nodes + 1))
    return row_ptr.astype(np.uint32), ends[order].astype(np.uint32)


def _bfs_data(nodes: int, edges: int) -> dict[str, Any]:
    row_ptr, col = random_rows(nodes, edges, 9)
    return {"row_ptr": row_ptr, "col": col, "nodes": nodes, "source": 0}


def _bfs(session: Session, data: Data) -> Side:
    nodes = data["nodes"]
    memory = Memory(
        session,
        {
            "row_ptr": data["row_ptr"],
            "col": data["col"],
            "levels": np.zeros(nodes, np.uint32),
            "marks": np.zeros(nodes, np.uint32),
            "changed": np.zeros(1, np.uint32),
            "depths": np.zeros(2, np.uint32),
        },
    )
    levels = memory.arrays["levels"]
    state = memory.named(levels="levels", marks="marks", depths="depths")
    rows = memory.named(row_ptr="row_ptr", col="col")
    search = session.fixpoint(
        [
            Step(programs.bfs_push(), {**rows, **state}, extent=nodes),
            Step(programs.bfs_settle(), {**memory.named(changed="changed"), **state}, extent=nodes),
        ],
        first=[Step(programs.start_search(), {"source": data["source"], **state}, extent=nodes)],
        changed=memory.arrays["changed"],
        limit=_MOST_LEVELS,
    )

    def run() -> None:
        """Searches up to the first level in which no node is reached."""
        if not search().converged:
            raise AssertionError(f"more than {_MOST_LEVELS} levels")

    return Side(run, levels.download, memory.close)


def _bfs_expected(data: Data) -> Array:
    levels = np.full(data["nodes"], UNREACHED, np.uint32)
    row_ptr, col = data["row_ptr"].astype(np.int64), data["col"]
    frontier = np.array([data["source"]])
    levels[frontier] = 0
    depth = 0
    while frontier.size:
        depth += 1
        targets = np.concatenate([col[row_ptr[node] : row_ptr[node + 1]] for node in frontier.tolist()])
        frontier = np.unique(targets[levels[targets] == UNREACHED])
        levels[frontier] = depth
    return levels


# ---------------------------------------------------------------- sorting
def _sort_data(n: int) -> dict[str, Any]:
    return {"keys": np.random.default_rng(10).integers(0, 1 << 32, n, np.uint32)}


def _sort(session: Session, data: Data) -> Side:
    """Steps with near pairs run in registers of subgroups; up to three of the others share a launch."""
    n = data["keys"].size
    memory = Memory(session, {"unsorted": data["keys"], "keys": np.zeros(n, np.uint32)})
    keys = memory.named(keys="keys")
    blocks = n // programs.SORTED_BLOCK
    steps = [Step(programs.copied(), memory.named(source="unsorted", to="keys"))]
    steps.append(Step(programs.sort_blocks(2), {"block": 0, **keys}, grid=blocks))
    merge = programs.sort_blocks(2 * programs.SORTED_BLOCK)
    makers = {
        1: programs.compare_exchange,
        2: programs.compare_exchange_two,
        3: programs.compare_exchange_three,
    }
    made: dict[tuple[int, int], Any] = {}
    block = 2 * programs.SORTED_BLOCK
    while block <= n:
        stride = block // 2
        while stride >= programs.SORTED_BLOCK:
            count = min(3, (stride // programs.SORTED_BLOCK).bit_length())
            if (count, stride) not in made:
                made[count, stride] = makers[count](stride)
            program, apart = made[count, stride], stride >> (count - 1)
            grid = (max(apart // 256, 1), n // (2 * stride), 1)
            steps.append(Step(program, {"block": block, **keys}, grid=grid))
            stride >>= count
        steps.append(Step(merge, {"block": block, **keys}, grid=blocks))
        block *= 2
    return in_order(session, memory, steps, memory.arrays["keys"].download)


def _sort_by_steps(session: Session, data: Data) -> Side:
    """Makes one launch for each step of the network."""
    n = data["keys"].size
    memory = Memory(session, {"unsorted": data["keys"], "keys": np.zeros(n, np.uint32)})
    keys = memory.named(keys="keys")
    steps = [Step(programs.copied(), memory.named(source="unsorted", to="keys"))]
    made = {stride: programs.compare_exchange(stride) for stride in (1 << bit for bit in range(n.bit_length() - 1))}
    block = 2
    while block <= n:
        stride = block // 2
        while stride:
            grid = (max(stride // 256, 1), n // (2 * stride), 1)
            steps.append(Step(made[stride], {"block": block, **keys}, grid=grid))
            stride //= 2
        block *= 2
    return in_order(session, memory, steps, memory.arrays["keys"].download)


def _sort_expected(data: Data) -> Array:
    return np.sort(data["keys"])


# ---------------------------------------------------------------- sparse matrix times vector
def _spmv_data(rows: int, entries: int) -> dict[str, Any]:
    row_ptr, col = random_rows(rows, entries, 11)
    source = np.random.default_rng(12)
    values, x = source.random(col.size, np.float32) - 0.5, source.random(rows, np.float32) - 0.5
    return {"row_ptr": row_ptr, "col": col, "values": values, "x": x}


def _spmv(session: Session, data: Data) -> Side:
    return one_launch(session, spmv.spmv.program, data, "y", np.zeros_like(data["x"]))


def _spmv_expected(data: Data) -> Array:
    """Adds the first product of every row, then the second, and so on: the order of one row after the other."""
    row_ptr = data["row_ptr"].astype(np.int64)
    products = data["values"] * data["x"][data["col"]]
    total = np.zeros(data["x"].size, np.float32)
    lengths = np.diff(row_ptr)
    for k in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > k)
        total[longer] += products[row_ptr[longer] + k]
    return total


# ---------------------------------------------------------------- softmax
def _softmax_data(rows: int, width: int) -> dict[str, Any]:
    x = np.random.default_rng(13).uniform(-8, 8, rows * width).astype(np.float32)
    return {"x": x, "rows": rows, "width": width}


def _softmax(session: Session, data: Data) -> Side:
    program = programs.softmax_rows(data["width"])
    return one_launch(session, program, {"x": data["x"]}, "out", np.zeros_like(data["x"]), grid=data["rows"])


def _softmax_expected(data: Data) -> Array:
    """Returns the softmax with the additions in the order of the kernel; exp is computed in f64 and rounded once."""
    lanes = programs.SOFTMAX_LANES
    x = data["x"].reshape(data["rows"], data["width"])
    e = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64)).astype(np.float32)
    total = np.zeros((data["rows"], lanes), np.float32)
    for first in range(0, data["width"], lanes):
        part = e[:, first : first + lanes]
        total[:, : part.shape[1]] += part
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return np.asarray(e / total).ravel()


_OTHER_SUMS: Final = dict.fromkeys(("C", "numba", "NumPy", "PoCL", "Warp", "Taichi"), 2e-6)


def _sort_job(name: str, title: str, ours: Callable[[Session, Data], Side], same_task: str = "") -> Job:
    return Job(name, title, _sort_data, _sort_expected, ours, {"n": 1 << 20}, {"n": 1 << 12}, same_task=same_task)


JOBS: Final = (
    Job(
        "dfa-scan-4MB",
        "visits of an automaton for 8 patterns to its accepting states, 4 MB of text",
        _dfa_data,
        _dfa_expected,
        _dfa,
        {"n": 4_000_000},
        {"n": 5000},
    ),
    Job(
        "bfs-1e6",
        "breadth-first search over 10^5 nodes and 10^6 random edges",
        _bfs_data,
        _bfs_expected,
        _bfs,
        {"nodes": 100_000, "edges": 1_000_000},
        {"nodes": 100, "edges": 400},
    ),
    _sort_job("bitonic-sort-2^20", "bitonic sort of 2^20 u32, steps fused in registers", _sort),
    _sort_job(
        "bitonic-sort-2^20-by-steps",
        "the same, a launch for each step of the network",
        _sort_by_steps,
        "bitonic-sort-2^20",
    ),
    Job(
        "spmv-1e6",
        "sparse matrix of 10^5 rows and 10^6 entries times a vector",
        _spmv_data,
        _spmv_expected,
        _spmv,
        {"rows": 100_000, "entries": 1_000_000},
        {"rows": 100, "entries": 700},
        {"NumPy": 1e-5},
    ),
    Job(
        "softmax-1024x1000",
        "softmax of 1024 rows of 1000 f32",
        _softmax_data,
        _softmax_expected,
        _softmax,
        {"rows": 1024, "width": 1000},
        {"rows": 5, "width": 150},
        _OTHER_SUMS,
    ),
)
