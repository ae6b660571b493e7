"""Keys of compiled code: the digest of a new program, the key once the digest is known, and the key once more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final

from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, measure, measure_each
from benchmarks.host_rows import nodes
from vyre import Program
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import KeyMaker, ptx_keys
from vyre.domain.identity import program_digest
from vyre.domain.specialization import SpecMap, complete_spec

BATCH: Final = 100
"""Programs in a sample."""
SMALL: Final = 40
LARGE: Final = 4000
"""Statements."""
_VARIANTS: Final = count()


def _new_programs(number: int) -> list[Program]:
    """Of fifty nodes, each another one."""
    found = [kernels.fifty_nodes(next(_VARIANTS)) for _ in range(number)]
    if not 45 <= nodes(found[0]) <= 55 or found[0]._cache:
        raise AssertionError(f"a fifty-node program of {nodes(found[0])} nodes that knows {list(found[0]._cache)}")
    return found


def _digest(rounds: int) -> Samples:
    _digests(_new_programs(BATCH))
    return _each([partial(_digests, _new_programs(BATCH)) for _ in range(rounds)])


def _digests(programs: Sequence[Program]) -> None:
    for program in programs:
        program_digest(program)


def _growth(rounds: int) -> Samples:
    """Seconds a node of a long program, beside those of short ones with as many nodes; the sides alternate."""
    works, sizes = [], []
    for statements in (LARGE, SMALL) * rounds:
        programs = [kernels.long_program(statements) for _ in range(LARGE // statements)]
        works.append(partial(_digests, programs))
        sizes.append(sum(map(nodes, programs)))
        for program in programs:
            program._cache.clear()  # validating it left facts about it
    found = [seconds / size for seconds, size in zip(measure_each(works).ours, sizes, strict=True)]
    return Samples(found[::2], found[1::2])


def _key(rounds: int) -> Samples:
    keys = ptx_keys(EmitOptions())
    batches = [_new_programs(BATCH) for _ in range(rounds)]
    spec = complete_spec(batches[0][0], None)
    for programs in batches:
        _digests(programs)
    if keys.key(_new_programs(1)[0], spec).digest == keys.key(batches[0][0], spec).digest:
        raise AssertionError("two programs share a key")
    return _each([partial(_keys, keys, programs, spec) for programs in batches])


def _keys(keys: KeyMaker, programs: Sequence[Program], spec: SpecMap) -> None:
    for program in programs:
        _ = keys.key(program, spec).digest


def _each(works: Sequence[partial[None]]) -> Samples:
    """Seconds a program."""
    return Samples([seconds / BATCH for seconds in measure_each(works).ours])


def _same(rounds: int) -> Samples:
    keys, (program,) = ptx_keys(EmitOptions()), _new_programs(1)
    spec = complete_spec(program, None)
    if keys.key(program, spec) is not keys.key(program, spec):
        raise AssertionError("the key is made again")

    def again() -> None:
        for _ in range(BATCH):
            keys.key(program, spec)

    return Samples([seconds / BATCH for seconds in measure(again, rounds).ours])


_STATE: Final = "programs of about fifty nodes"
ROWS: Final = (
    Row("program-digest", Metric.COST, "us", 75.0, None, _digest, f"{_STATE}, new", scale=1e6),
    Row("program-digest-growth", Metric.RATIO, "x a node", 1.5, None, _growth, f"{LARGE} statements, {SMALL}"),
    Row("artifact-key", Metric.COST, "us", 10.0, None, _key, f"{_STATE}, digest known", scale=1e6),
    Row("artifact-key-again", Metric.COST, "us", 0.15, None, _same, "the same objects", scale=1e6),
)
