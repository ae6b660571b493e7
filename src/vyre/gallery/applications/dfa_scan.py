"""Several byte patterns in one pass: an Aho-Corasick automaton run by many lanes at once.

Each lane scans a chunk and starts early enough to be in the right state at the chunk's first byte, so no match is
lost or counted twice.  Lanes count visits to accepting states; the host knows which patterns end in a state.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import vyre
from vyre import DispatchConfig, In, Out, Program, ProgramBuilder, like, min_, sat_sub, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs, random_u32

CHUNK = 256


@dataclass(frozen=True, slots=True)
class Automaton:
    """An automaton for several patterns.

    ``table[state * 256 + byte]`` is the next state; ``ends[state, k]`` is whether pattern k ends there.
    """

    patterns: tuple[bytes, ...]
    table: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.bool_]

    @property
    def accepting(self) -> npt.NDArray[np.uint32]:
        """Returns 1 for every state in which some pattern ends, else 0."""
        return np.asarray(self.ends.any(axis=1), np.uint32)

    @property
    def longest(self) -> int:
        """Returns the length of the longest pattern in bytes."""
        return max(map(len, self.patterns))


def automaton(patterns: Sequence[bytes]) -> Automaton:
    """Returns the automaton of Aho and Corasick with every transition filled in."""
    edges: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    for k, pattern in enumerate(patterns):
        state = 0
        for byte in pattern:
            if byte not in edges[state]:
                edges[state][byte] = len(edges)
                edges.append({})
                ends.append(set())
            state = edges[state][byte]
        ends[state].add(k)
    table = np.zeros((len(edges), 256), np.uint32)
    fallback = [0] * len(edges)
    queue = deque([0])
    while queue:  # breadth first: the fallback of a state is shallower, so its row is complete
        state = queue.popleft()
        table[state] = table[fallback[state]] if state else 0
        for byte, target in edges[state].items():
            fallback[target] = int(table[fallback[state], byte]) if state else 0
            table[state, byte] = target
            queue.append(target)
            ends[target] |= ends[fallback[target]]
    accepts = np.array([[k in accepted for k in range(len(patterns))] for accepted in ends])
    return Automaton(tuple(patterns), table.reshape(-1), accepts)


@vyre.kernel(workgroup=64)
def dfa_scan(
    warm_up: u32, text: In[u8], table: In[u32], accepting: In[u32], visits: Out[u32, like("accepting")]
) -> None:
    """Each lane scans one chunk and counts its visits to accepting states."""
    start = vyre.global_id() * CHUNK
    stop = min(start + CHUNK, len(text))
    state = 0
    for position in range(vyre.sat_sub(start, warm_up), stop):
        state = table[state * 256 + text[position]]
        if position >= start and accepting[state] != 0:
            visits.atomic_add(state, 1)


def dfa_scan_by_builder(chunk: int = CHUNK) -> Program:
    """Builds the same program with a ``ProgramBuilder``, for chunks of ``chunk`` bytes."""
    with ProgramBuilder("dfa_scan", workgroup=64) as p:
        warm_up = p.param("warm_up", u32)
        text = p.input("text", u8)
        table = p.input("table", u32)
        accepting = p.input("accepting", u32)
        visits = p.output("visits", u32, like=accepting)
        start = p.let(p.global_id() * chunk, "start")
        stop = p.let(min_(start + chunk, text.length), "stop")
        state = p.var(0, "state")
        with p.for_(sat_sub(start, warm_up), stop, name="at") as position:
            state.assign(table[state * 256 + text[position]])
            with p.if_((position >= start) & (accepting[state] != 0)):
                visits.atomic_add(state, 1)
    return p.build()


def scan(session: Dispatcher, program: Program, text: Array, machine: Automaton) -> npt.NDArray[np.uint32]:
    """Returns the number of occurrences, overlapping ones included, of each pattern in ``text`` (u8)."""
    result = session.dispatch(
        program,
        {"warm_up": machine.longest - 1, "text": text, "table": machine.table, "accepting": machine.accepting},
        DispatchConfig(extent=(-(-text.size // CHUNK),)),
    )
    return (result["visits"] @ machine.ends).astype(np.uint32)


def occurrences(text: bytes, patterns: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    """Returns the same counts from ``re``; a lookahead finds overlapping matches, too."""
    return np.array([len(re.findall(b"(?=" + re.escape(pattern) + b")", text)) for pattern in patterns], np.uint32)


PATTERNS = (b"abab", b"ba", b"bab", b"bbbb")


def case() -> Case:
    """Returns a random text of "a" and "b", and the occurrences of ``PATTERNS`` in it."""
    text = (ord("a") + ((random_u32(31, 5000) >> 16) & 1)).astype(np.uint8)
    return Case({"text": text}, {"counts": occurrences(text.tobytes(), PATTERNS)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Scans the text and returns the counts."""
    return {"counts": scan(session, program, np.asarray(case.inputs["text"]), automaton(PATTERNS))}


EXAMPLE = Example(
    "dfa-scan", "scan bytes for several patterns (Aho-Corasick)", dfa_scan, case, "re", run, builder=dfa_scan_by_builder
)
