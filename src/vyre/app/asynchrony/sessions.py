"""The part of ``Session`` that starts dispatches and lets the caller go on."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from vyre.app.preparing import shorthand_key
from vyre.app.session_core import SessionCore
from vyre.app.shorthand import Keywords
from vyre.domain.arguments import real
from vyre.domain.errors import DispatchTimeout
from vyre.domain.ir.program import Program, ProgramLike

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vyre.app.asynchrony.futures import Submitted
    from vyre.app.host_arrays import Shapes
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.app.result import Result
    from vyre.domain.dispatch import DispatchConfig

_LATEST: Final = 1e12


@cache
def _futures() -> type[Submitted[Any]]:
    """Returns ``Submitted``, importing its modules only when it is asked for."""
    from vyre.app.asynchrony.futures import Submitted

    return Submitted


class SessionAsynchrony(SessionCore):
    """Dispatches that a session starts without waiting for them."""

    def submit(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> Future[Result]:
        """Starts a dispatch and returns at once.  ``shorthand`` as for ``compile``.

        Inputs are copied before this returns; everything that can be checked without running raises here.  On a backend
        with an async executor the device runs the dispatch; on any other a thread of this session does, which overlaps
        with the caller only as far as the backend releases the interpreter lock.  ``cpu`` runs at once what ends sooner
        than a worker would have begun it: some 20 us.  Either ``close`` waits for the
        dispatch, or this raises ``InvalidResource``, as on a closed session.  ``cancel`` of the future cancels a
        dispatch that has not begun, and asks ``cpu`` to stop one that has, which then fails with ``DispatchFailed``.

        Raises ``QueueFull`` if ``max_in_flight`` dispatches of the session are under way: it never waits, so that it
        can be called in event loops and in callbacks.
        """
        self._lease.check_open()
        future: Submitted[Result] = _futures()(self._work.admission.give_back)
        try:
            self._work.admission.take(future)
            return self._begin(future, program, inputs, config, shorthand)
        except BaseException:
            future.drop()
            raise

    async def dispatch_async(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        **shorthand: Unpack[Keywords],
    ) -> Result:
        """Runs ``program`` once and returns its outputs, as ``dispatch`` does, while the event loop goes on.

        No thread waits for it.  ``max_in_flight`` dispatches of the session may be under way; more wait for room, in
        the order in which they came, and have copied nothing yet: inputs must stay as they are until this returns.
        A program that is not prepared is compiled on a thread of the session.  ``timeout``: seconds for all of it,
        waiting for room included; ``deadline``: the time of the loop, ``loop.time()``, up to which it may take.
        ``shorthand`` as for ``compile``.

        Cancelling the task, and a timeout, cancel the dispatch: one that has not begun does not begin, and ``cpu``
        stops one that has.  Elsewhere it runs to its end, without a caller, and keeps its place until then.

        Raises what ``dispatch`` raises, and ``DispatchTimeout`` if the time is up.
        """
        import asyncio

        from vyre.app.persistent.tickets import checked_timeout

        self._lease.check_open()
        ends_at = None if timeout is None else asyncio.get_running_loop().time() + checked_timeout(timeout)
        if deadline is not None:
            fix = "give a time of the loop, as loop.time() + 2.5, or None."
            checked = real("deadline", deadline, -_LATEST, _LATEST, fix)
            ends_at = checked if ends_at is None else min(ends_at, checked)
        try:
            async with asyncio.timeout_at(ends_at) as limit:
                return await self._awaited(program, inputs, config, shorthand)
        except TimeoutError:
            if not limit.expired():
                raise
            until = f"timeout={timeout} s" if deadline is None else f"deadline={deadline}"
            raise DispatchTimeout(
                f"the dispatch did not finish within {until}, and was cancelled",
                fix="give it more time, make it smaller, or have fewer under way.",
            ) from None

    # ---- details
    async def _awaited(
        self, program: ProgramLike, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords
    ) -> Result:
        """Waits for a place, begins the dispatch and waits for its end.  If it is cancelled, so is the dispatch."""
        from vyre.app.asynchrony.futures import Submitted, ended

        future: Submitted[Result] = Submitted(self._work.admission.give_back)
        begin = partial(self._begin, future, program, inputs, config, shorthand)
        try:
            await self._work.admission.wait(future)
            if self._is_prepared(program, config, shorthand):
                begin()
            else:
                begun: Submitted[Submitted[Result]] = Submitted(lambda _: None)
                self._work.threads.submit(partial(begun.run, begin))
                await ended(begun)
        except BaseException:
            future.drop()
            raise
        try:
            return await ended(future)
        except BaseException:
            future.cancel()
            raise

    def _begin(
        self,
        future: Submitted[Result],
        program: ProgramLike,
        inputs: Inputs,
        config: DispatchConfig | None,
        shorthand: Keywords,
    ) -> Submitted[Result]:
        """Starts a dispatch that completes ``future``, which the caller drops where this raises, and returns it."""
        self._lease.check_open()
        return self._begin_launch(future, *self._compiled_launch(program, inputs, config, shorthand))

    def _begin_launch(
        self, future: Submitted[Result], pipeline: Pipeline, inputs: Inputs, shapes: Shapes | None
    ) -> Submitted[Result]:
        """Does what ``_begin`` does, for a launch that is compiled."""
        if future.cancelled():
            return future
        if self._lease.has_residents and pipeline._takes_resident(inputs):
            from vyre.ports.cancellation import Cancellation

            accesses, operation = pipeline._resident_operation(inputs, shapes)
            cancellation = Cancellation()
            future.stopped_by(cancellation)
            self._work.start(future, accesses, partial(operation, cancellation), self._work.threads)
            return future
        views = pipeline.views(inputs)
        shapes = pipeline.shapes(inputs) if shapes is None else shapes
        if not pipeline._submit(views, future, shapes):
            snapshot = tuple([memoryview(bytes(view)) for view in views])
            run = partial(pipeline.run, snapshot, None, None, shapes)
            self._work.threads.submit(partial(future.run, run))
        return future

    def _is_prepared(self, program: ProgramLike, config: DispatchConfig | None, shorthand: Keywords) -> bool:
        """Returns whether a dispatch finds its pipeline; False where that takes more than a look."""
        if type(program) is not Program:
            return False
        if not shorthand:
            return (id(program), id(config)) in self._prepared
        words = Keywords(spec=None, grid=None, extent=None, output_counts=None, race_check=False) | shorthand
        try:
            return shorthand_key(program, config, **words) in self._prepared
        except TypeError:  # an invalid argument without a hash, which is refused
            return False
