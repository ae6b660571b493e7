"""Cases of ``PreparablePipeline``: resources of a dispatch are made ahead of it, and nothing is launched."""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import InvalidConfig, InvalidInput, TrapError, VyreError
from vyre.ports.execution import PreparablePipeline
from vyre.testing.backend_contract.bench import Bench, Storage, at_once, u32s, view, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal, holds, refusal
from vyre.testing.backend_contract.kernels import SCALE

PREPARED: Final = Group("prepared", "compiler")
_TRAP: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] != 9u { trap(gid.x, "not nine") } x[gid.x] = 10u }
    """
MANY: Final = 160
"""A number of lengths that exceeds every cache of launches."""


def _pipeline(bench: Bench, kernel: str = SCALE, **config: Any) -> PreparablePipeline:
    pipeline = bench.compile(kernel, **config)
    if not isinstance(pipeline, PreparablePipeline):
        raise Skipped(f"pipelines of `{bench.backend.id}` prepare nothing")
    return pipeline


def _check(pipeline: PreparablePipeline, size: int) -> None:
    arena = OutputArena()
    pipeline.dispatch((view(words(*range(size))),), arena)
    equal(u32s(arena[0]), [k * 3 + k // 8 for k in range(size)], f"{size} elements")


@PREPARED.table({"none": 0, "one": 1, "several": 50})
def a_prepared_length_is_at_hand(bench: Bench, size: int) -> None:
    """A prepared length is reported as prepared, and its dispatch returns the same bytes as without preparation."""
    pipeline = _pipeline(bench)
    pipeline.prepare((4 * size,))
    holds(pipeline.is_prepared((4 * size,)), f"{size} elements were prepared, and are not")
    for _ in range(3):
        _check(pipeline, size)


@PREPARED.case("supports_trap_propagation")
def preparing_launches_nothing(bench: Bench) -> None:
    """A program that always traps is prepared without an error, and traps when it is dispatched."""
    pipeline = _pipeline(bench, _TRAP)
    pipeline.prepare((16,))
    storage = Storage()
    refusal(TrapError, lambda: pipeline.dispatch((view(words(9, 9, 1, 9)),), storage))
    pipeline.dispatch((view(words(9, 9, 9, 9)),), storage)
    equal(storage.outputs, (words(10, 10, 10, 10),))


@PREPARED.case()
def lengths_are_told_apart(bench: Bench) -> None:
    """Other lengths may be dispatched after one was prepared, before it is used and afterwards."""
    pipeline = _pipeline(bench)
    pipeline.prepare((4 * 20,))
    for size in (7, 20, 33, 20, 1):
        _check(pipeline, size)


@PREPARED.table({"no_input": (), "two_inputs": (4, 4), "half_an_element": (6,)})
def what_cannot_be_is_refused(bench: Bench, lengths: tuple[int, ...]) -> None:
    """Lengths that a dispatch refuses are refused, are never prepared, and leave the pipeline unchanged."""
    _refused(bench, lengths, InvalidInput)


@PREPARED.case()
def a_config_is_enforced_ahead(bench: Bench) -> None:
    """Lengths whose outputs the config does not allow are refused."""
    _refused(bench, (4 * 4,), InvalidConfig, max_output_bytes=12)


def _refused(bench: Bench, lengths: tuple[int, ...], expected: type[VyreError], **config: Any) -> None:
    pipeline = _pipeline(bench, **config)
    for _ in range(2):
        holds(not pipeline.is_prepared(lengths), f"{lengths} bytes cannot be, and are prepared")
        refusal(expected, lambda: pipeline.prepare(lengths))
    _check(pipeline, 3)


@PREPARED.case()
def many_lengths_are_prepared(bench: Bench) -> None:
    """Any number of lengths may be prepared; the latest stays prepared, and evicted ones still work."""
    pipeline = _pipeline(bench)
    for size in range(MANY):
        pipeline.prepare((4 * size,))
        holds(pipeline.is_prepared((4 * size,)), f"{size} elements were prepared last, and are not")
    for size in (0, 1, MANY - 1):
        _check(pipeline, size)


@PREPARED.case()
def threads_prepare_what_others_dispatch(bench: Bench) -> None:
    """Threads may prepare lengths of a pipeline while others dispatch the same and other ones."""
    pipeline = _pipeline(bench)

    def work(number: int) -> None:
        for size in (5, 17, 40, 17):
            if number % 2:
                pipeline.prepare((4 * size,))
            else:
                _check(pipeline, size)

    at_once(8, work)
    _check(pipeline, 40)
