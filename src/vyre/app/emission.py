"""Kernels as text, for whoever launches them without this library."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from vyre.domain.arguments import expect, items_of
from vyre.domain.errors import InvalidConfig
from vyre.domain.shown import shown

if TYPE_CHECKING:
    from vyre.adapters.cuda.ptx.kernel import EmittedModule
    from vyre.adapters.cuda.ptx.options import EmitOptions
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import SpecInput

GRID_SYNC_MODES: Final = ("native", "split")


def emit(
    program: Program,
    *,
    target: str = "sm_90",
    assume: Collection[str] = (),
    grid_sync: str = "native",
    spec: Mapping[str, SpecInput] | None = None,
) -> EmittedModule:
    """PTX for a program, and all that a launcher must know (``to_json`` gives the documented form).

    Needs neither a driver nor a CUDA package.  The kernel is valid for every grid and for naturally aligned buffers
    that may overlap; ``assume`` (``aligned16``, ``noalias``, ``exact-grid``) vouches for more.  A program with grid
    barriers is one cooperative kernel, or with ``grid_sync="split"`` several, to be launched in order on one stream.

    Raises ``InvalidProgram``, ``UnsupportedFeature`` for what the target cannot run, and ``InvalidConfig`` for an
    unknown target or option.
    """
    from vyre.adapters.cuda.ptx.emit import emit as emit_ptx
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import spec_literals

    expect("program", program, Program, "a Program")
    return emit_ptx(program, _options(target, assume, grid_sync), spec_literals(program, spec))


def ptx_key(
    program: Program,
    *,
    target: str = "sm_90",
    assume: Collection[str] = (),
    grid_sync: str = "native",
    spec: Mapping[str, SpecInput] | None = None,
) -> ArtifactKey:
    """The key under which a cache keeps what ``emit`` gives for the same arguments.

    Raises ``InvalidProgram`` if a name in the program does not resolve, and ``InvalidConfig`` as ``emit`` does.
    """
    from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import complete_spec

    expect("program", program, Program, "a Program")
    return ptx_keys(_options(target, assume, grid_sync)).key(program, complete_spec(program, spec))


def _options(target: str, assume: Collection[str], grid_sync: str) -> EmitOptions:
    from vyre.adapters.cuda.decisions.ptx_target import sm_number
    from vyre.adapters.cuda.ptx.kernel import Assumption
    from vyre.adapters.cuda.ptx.options import EmitOptions

    expect("target", target, str, "a name such as sm_90")
    expect("grid_sync", grid_sync, str, f"one of {', '.join(GRID_SYNC_MODES)}")
    known = {assumption.value: assumption for assumption in Assumption}
    names = tuple(items_of("assume", assume))
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise InvalidConfig(f"unknown assumption {shown(name)}", fix=f"use some of {', '.join(known)}.")
    if grid_sync not in GRID_SYNC_MODES:
        raise InvalidConfig(f"grid_sync={grid_sync!r} is no mode", fix=f"use one of {', '.join(GRID_SYNC_MODES)}.")
    return EmitOptions(
        target=sm_number(target),
        assume=frozenset(known[name] for name in names),
        native_grid_sync=grid_sync == "native",
    )
