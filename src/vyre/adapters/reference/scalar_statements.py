"""The steps of statements on the scalar oracle: closures from the active lanes to those that continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyre.adapters.reference.scalar_state import Evaluate, Execute, Lanes, Location, Workgroup
from vyre.domain.errors import DispatchTimeout, StepBudgetExceeded, TrapError
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar


def set_local(name: str, evaluate: Evaluate) -> Execute:
    """Gives a local a new value."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        values = evaluate(wg, lanes)
        slots = wg.locals.get(name)
        if slots is None:
            slots = wg.locals[name] = [0] * wg.size
        for lane, value in zip(lanes, values, strict=True):
            slots[lane] = value
        return lanes

    return execute


def store(name: str, index: Evaluate, value: Evaluate, loc: Location) -> Execute:
    """Writes elements of a buffer, ascending lanes."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        indices, values, buffer = index(wg, lanes), value(wg, lanes), wg.buffers[name]
        for lane, i, v in zip(lanes, indices, values, strict=True):
            if wg.tracer is not None and 0 <= i < buffer.count:
                wg.tracer.store(name, i * buffer.size, scalar.store_element(buffer.element, v), lane, loc)
            buffer.store(i, v)
        return lanes

    return execute


def private_store(name: str, index: Evaluate, value: Evaluate) -> Execute:
    """Writes elements of the lanes' own memory, which no other lane sees."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        indices, values = index(wg, lanes), value(wg, lanes)
        for lane, i, v in zip(lanes, indices, values, strict=True):
            wg.private_buffer(name, lane).store(i, v)
        return lanes

    return execute


def branches(links: Sequence[tuple[Evaluate, Execute]], otherwise: Execute) -> Execute:
    """Runs the body of each link of a chain for the lanes where its condition is the first that holds, then the last
    one for the rest.
    """

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        left: Lanes = []
        for condition, then in links:
            if not lanes:
                break
            taken = condition(wg, lanes)
            yes = [lane for lane, c in zip(lanes, taken, strict=True) if c]
            lanes = [lane for lane, c in zip(lanes, taken, strict=True) if not c]
            left += then(wg, yes)
        return sorted(left + otherwise(wg, lanes))

    return execute


def switch(selector: Evaluate, arm_of: Mapping[int, int], arms: Sequence[Execute], default: Execute) -> Execute:
    """Runs the arms in order, each for the lanes whose selector is among its labels, then the default for the rest."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        chosen: dict[int, Lanes] = {}
        for lane, value in zip(lanes, selector(wg, lanes), strict=True):
            chosen.setdefault(arm_of.get(value, len(arms)), []).append(lane)
        bodies = (*arms, default)
        return sorted(lane for number in sorted(chosen) for lane in bodies[number](wg, chosen[number]))

    return execute


def loop(
    var: str, dtype: ScalarType, bounds: tuple[Evaluate, Evaluate, Evaluate], body: Execute, site: str | None
) -> Execute:
    """Runs a body until no lane is left in the loop; ``bounds`` return numbers, ``dtype`` is that of the variable."""
    mask = (1 << dtype.bits) - 1

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        first, last, by = (dict(zip(lanes, e(wg, lanes), strict=True)) for e in bounds)
        outer_broke, outer_continued = wg.broke, wg.continued
        wg.broke, wg.continued = set(), set()
        counter = dict(first)
        active = [lane for lane in lanes if _in_range(first[lane], last[lane], by[lane])]
        done = [lane for lane in lanes if not _in_range(first[lane], last[lane], by[lane])]
        slots = wg.locals[var] = [0] * wg.size
        while active:
            for lane in active:
                slots[lane] = counter[lane] & mask
            through = sorted(set(body(wg, active)) | wg.continued)
            done += wg.broke
            wg.broke, wg.continued = set(), set()
            active = []
            for lane in through:
                counter[lane] += by[lane]  # in unbounded arithmetic: the next value may not fit its type
                if not _in_range(counter[lane], last[lane], by[lane]):
                    done.append(lane)
                elif _take_step(wg, lane, site):
                    active.append(lane)
        wg.broke, wg.continued = outer_broke, outer_continued
        return sorted(done)

    return execute


def _in_range(value: int, stop: int, step: int) -> bool:
    return value < stop if step > 0 else step < 0 and value > stop


def _take_step(wg: Workgroup, lane: int, site: str | None) -> bool:
    """Counts one loop back-edge of the lane; returns False and ends the lane if its budget is used up."""
    if wg.options.is_late is not None and wg.options.is_late():
        raise DispatchTimeout("the deadline passed inside a loop")
    budget = wg.options.step_budget
    if budget is None:
        return True
    linear = wg.linear_global_id(lane)
    carried = wg.options.steps_used
    used = (int(carried[linear]) if carried is not None else wg.steps.get(lane, 0)) + 1
    if carried is not None:
        carried[linear] = used
    else:
        wg.steps[lane] = used
    if used <= budget:
        return True
    if wg.over_budget is None or linear < wg.over_budget[0]:
        wg.over_budget = linear, StepBudgetExceeded(budget=budget, global_id=wg.global_id(lane), site=site)
    return False


def break_rounds(wg: Workgroup, lanes: Lanes) -> Lanes:
    """Ends the innermost loop for the lanes."""
    wg.broke.update(lanes)
    return []


def continue_rounds(wg: Workgroup, lanes: Lanes) -> Lanes:
    """Ends the round of the innermost loop for the lanes."""
    wg.continued.update(lanes)
    return []


def barrier(wg: Workgroup, lanes: Lanes) -> Lanes:
    """Tells the tracer of a barrier; every statement has run for all lanes anyway."""
    if wg.tracer is not None:
        wg.tracer.barrier()
    return lanes


def trap(address: Evaluate, tag: str) -> Execute:
    """Ends the lanes; records the one with the lowest linear global id."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        for lane, where in zip(lanes, address(wg, lanes), strict=True):
            linear = wg.linear_global_id(lane)
            if wg.trap is None or linear < wg.trap[0]:
                wg.trap = linear, TrapError(tag=tag, address=where, global_id=wg.global_id(lane))
        return []

    return execute


def _captured(wg: Workgroup, source: str, start: int, length: int, lane: int, loc: Location) -> bytes:
    """Returns ``length`` bytes of a buffer from ``start``, zeros past its end."""
    payload = bytes(wg.buffers[source].data[start : start + length])
    if wg.tracer is not None and payload:
        wg.tracer.load(source, start, len(payload), lane, loc)
    return payload.ljust(length, b"\0")


def async_copy(copy: AsyncLoad | AsyncStore, offset: Evaluate, size: Evaluate) -> Execute:
    """Captures bytes [offset, offset + size) of the source for byte 0 of the destination of a load, and the first
    ``size`` bytes for byte ``offset`` of that of a store.
    """
    destination = copy.destination

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        offsets, sizes = offset(wg, lanes), size(wg, lanes)
        room = len(wg.buffers[destination].data)
        for lane, start, length in zip(lanes, offsets, sizes, strict=True):
            first, to = (start, 0) if isinstance(copy, AsyncLoad) else (0, start)
            length = min(length, max(room - to, 0))  # the rest would be clipped at the wait
            payload = _captured(wg, copy.source, first, length, lane, copy.loc)
            wg.pending[copy.tag, lane] = destination, to, payload, copy.loc
        return lanes

    return execute


def async_wait(tag: str) -> Execute:
    """Writes the captured bytes, clipped to the destination."""

    def execute(wg: Workgroup, lanes: Lanes) -> Lanes:
        for lane in lanes:
            destination, start, payload, loc = wg.pending.pop((tag, lane))
            data = wg.buffers[destination].data
            end = min(start + len(payload), len(data))
            if start < end:
                data[start:end] = payload[: end - start]
                if wg.tracer is not None:
                    wg.tracer.store(destination, start, payload[: end - start], lane, loc)
        return lanes

    return execute
