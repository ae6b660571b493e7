"""``vyre.optimize``: a program after passes of the optimizer, and what each of them did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from vyre.app.verdicts import valid_with_registered
from vyre.domain.arguments import expect, items_of
from vyre.domain.device import DeviceProfile
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.float_mode import in_default_mode
from vyre.domain.ir.bake import with_constants
from vyre.domain.ir.program import Program, ProgramLike, program_of
from vyre.domain.missing import undeclared_in
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import UNSUPPORTED, Pass, PassResult, run_passes
from vyre.domain.optimize.saturation import SATURATION, rewrites_of, with_laws
from vyre.domain.printable import shown
from vyre.domain.recursion import telling_of_depth
from vyre.domain.specialization import SpecInput, spec_literals
from vyre.domain.validation.validator import without_calls

if TYPE_CHECKING:
    from vyre.app.session import Session
    from vyre.domain.dialects.laws.law import Law


class OptimizedProgram(NamedTuple):
    """A program after the optimizer, which began with ``before``.

    ``results``: the result of each pass, in order.  ``laws``: those of dialects by which it could be rewritten.
    """

    program: Program
    results: tuple[PassResult, ...]
    before: Program
    laws: tuple[Law, ...] = ()

    def rewrites(self) -> tuple[str, ...]:
        """Returns each expression that the pass ``saturation`` rewrote: both forms, and a line for each law between.

        The passes run again for that.
        """
        rewrites: list[str] = []
        program = self.before
        for result in self.results:
            if UNSUPPORTED in result.counts:
                continue
            if result.name == SATURATION.name:
                rewrites += map(str, rewrites_of(program, self.laws).rewrites)
            program = _step(result.name, self.laws).run(program, Counter())
        return tuple(rewrites)

    def __str__(self) -> str:
        """Returns a line for each pass: the nodes before and after it, and what it changed."""
        return "\n".join(map(str, self.results))


@telling_of_depth
@in_default_mode
def optimize(
    program: ProgramLike,
    *,
    passes: Sequence[str] | None = None,
    spec: Mapping[str, SpecInput] | None = None,
    session: Session | None = None,
    profile: DeviceProfile | None = None,
) -> OptimizedProgram:
    """Returns a program that gives the same bytes and errors for all inputs, with less work.

    ``passes``: names of passes in the order in which they run; None for all in the usual order.  ``spec``: values of
    specialization constants, which become literals; without it they stay.  ``session``: one that runs the passes of
    which there are kernels, with the same result; None: the host runs all. ``profile``: that of the backend for which
    the program is meant; a pass that would add a type or an operator which it lacks is left out. Laws of the dialects
    whose operations the program calls are used if they were checked on all values of their model. Buffers and their
    order stay, and so does the interface; the digest is another one. Raises ``InvalidProgram``, ``InvalidInput`` for
    what is no program, and
    ``InvalidConfig`` for an unknown pass or constant.
    """
    meant = program_of(program)
    expect("program", meant, Program, "a Program", InvalidInput)
    meant = valid_with_registered(meant)
    laws: tuple[Law, ...] = ()
    if meant.definitions:
        from vyre.app.dialects.current import dialect_registry  # few programs call operations
        from vyre.app.dialects.trusted_laws import trusted_laws

        laws = trusted_laws(meant, dialect_registry().snapshot)
    meant = without_calls(meant)
    if spec is not None:
        meant = with_constants(meant, spec_literals(meant, spec))
    names = list(DEFAULT_ORDER if passes is None else items_of("passes", passes))
    unknown = [name for name in names if not isinstance(name, str) or name not in PASSES]
    if unknown:
        raise InvalidConfig(f"there is no pass {shown(unknown[0])}", fix=f"use some of {', '.join(PASSES)}.")
    on_device: Mapping[str, Pass] = {}
    if session is not None:
        from vyre.app.device_passes.passes import passes_on

        on_device = passes_on(session)
    expect("profile", profile, (DeviceProfile, type(None)), "a DeviceProfile, such as session.profile, or None")
    steps = [on_device.get(name) or _step(name, laws) for name in names]
    if profile is None:
        optimized = run_passes(meant, steps)
    else:
        optimized = run_passes(meant, steps, partial(undeclared_in, profile=profile))
    return OptimizedProgram(optimized.program, optimized.results, meant, laws)


def _step(name: str, laws: tuple[Law, ...]) -> Pass:
    """Returns the pass of a name; the one that rewrites by laws has these laws too."""
    return with_laws(laws) if name == SATURATION.name else PASSES[name]
