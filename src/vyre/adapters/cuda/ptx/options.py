"""Options of the emitter: target, assumptions, ABI, and a switch for every optimising policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.domain.frozen import frozen

DEFAULT_TARGET: Final = 90
PORTABLE_PARAMETER_BYTES: Final = 4096


@frozen(kw_only=True)
class Switches:
    """The optimising policies.  Each may be off; none changes a byte of any result.

    ``bounds_checks``: omit proven checks.  ``wide_access``: 8- and 16-byte loads and stores.  ``shared_zeroing``: omit
    zeros of workgroup and private memory that no lane can observe.  ``constant_division``: multiply instead of
    dividing.  ``uniform_branches``: mark branches that a subgroup takes together.  ``relaxed_atomics``: no ordering
    where a program cannot observe it.  ``inline_uniforms``: small uniform buffers travel as parameters.
    """

    bounds_checks: bool = True
    wide_access: bool = True
    shared_zeroing: bool = True
    constant_division: bool = True
    uniform_branches: bool = True
    relaxed_atomics: bool = True
    inline_uniforms: bool = True


ALL_ON: Final = Switches()
ALL_OFF: Final = Switches(
    bounds_checks=False,
    wide_access=False,
    shared_zeroing=False,
    constant_division=False,
    uniform_branches=False,
    relaxed_atomics=False,
    inline_uniforms=False,
)


@frozen(kw_only=True)
class EmitOptions:
    """Options of an emission.

    ``target``: the number of an sm, 90 for sm_90.  ``assume``: launch-time facts that the caller guarantees.
    ``native_grid_sync``: grid barriers inside one cooperative kernel, else one kernel for each part.
    ``pointer_table``: bindings come in a table in memory; None lets the policy decide by ``parameter_limit`` (bytes).
    ``assembler``: version of the ``ptxas`` that will assemble the text, as (major, minor); None: unknown.
    ``folded``: the workgroups of all axes follow each other along x, and their numbers are parameters; a grid of none
    does nothing.
    ``mailbox``: the kernel stays and takes jobs from a mailbox (``mailbox.py``); a launch is no dispatch.
    ``passes``: the passes of the optimizer that prepare the program before it is emitted, with their versions.
    ``located``: the text names the lines of the user's source, for profilers and debuggers.
    """

    target: int = DEFAULT_TARGET
    assume: frozenset[Assumption] = frozenset()
    native_grid_sync: bool = True
    pointer_table: bool | None = None
    parameter_limit: int = PORTABLE_PARAMETER_BYTES
    assembler: tuple[int, int] | None = None
    switches: Switches = ALL_ON
    folded: bool = False
    mailbox: bool = False
    passes: str = ""
    located: bool = False


DEFAULT_OPTIONS: Final = EmitOptions()


class CodeProfile(NamedTuple):
    """A way of generating code that changes no byte of any result, but may change its speed.

    ``exact_grid``: launches that have exactly as many lanes as elements get a kernel that relies on it.
    ``pointer_table``: as in ``EmitOptions``.  ``assumptions``: kernels rely on the known facts about the bound memory.
    """

    switches: Switches = ALL_ON
    exact_grid: bool = False
    pointer_table: bool | None = None
    assumptions: bool = True

    def applied(self, options: EmitOptions) -> EmitOptions:
        """Returns ``options`` with the settings of this profile."""
        assume = options.assume if self.assumptions else frozenset()
        return replace(options, assume=assume, pointer_table=self.pointer_table, switches=self.switches)


USUAL_PROFILE: Final = CodeProfile()
TUNED_PROFILES: Final[Mapping[str, CodeProfile]] = {
    **{f"no-{f.name.replace('_', '-')}": CodeProfile(replace(ALL_ON, **{f.name: False})) for f in fields(Switches)},
    "exact-grid": CodeProfile(exact_grid=True),
}
"""The profiles that a tuner tries."""
PROFILES: Final[Mapping[str, CodeProfile]] = {
    **TUNED_PROFILES,
    "no-assumptions": CodeProfile(assumptions=False),
    "pointer-table": CodeProfile(pointer_table=True),
    "no-pointer-table": CodeProfile(pointer_table=False),
}
"""The profiles that ``DispatchConfig.profile`` may name.

Those that a tuner does not try give other code for most programs, and are hardly ever faster.
"""
