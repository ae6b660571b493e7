"""Building a bundle from programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.bake import with_constants
from vyre.domain.ir.program import Program
from vyre.domain.specialization import spec_literals
from vyre.domain.validation.validator import check_rules, without_calls
from vyre.ports.aot import AotRegistry
from vyre.ports.bundles import AotTargetId, Build, Bundle, BundledCode


def _forms(plain: Program, lowered: Program) -> tuple[Program, ...]:
    """Returns the programs that sessions may compile: with and without lowerings, if they differ."""
    return (plain,) if lowered.digest == plain.digest else (lowered, plain)


class Built(NamedTuple):
    """A bundle, and what the emitters made, by target."""

    bundle: Bundle
    builds: tuple[Build, ...]


def _as_written(target: str, program: Program) -> Program:
    return without_calls(program)


def build_bundle(
    entries: Mapping[str, Program],
    targets: Sequence[str],
    registry: AotRegistry,
    config: DispatchConfig = DEFAULT_CONFIG,
    form: Callable[[str, Program], Program] = _as_written,
) -> Built:
    """Returns a bundle of programs by the names of their entry points, for targets or groups of targets.

    ``workgroup`` and ``spec`` of ``config`` become part of each program.  ``form`` returns the program without calls
    that the code for a target may be made of, with its lowerings.

    Raises ``InvalidProgram``, ``InvalidConfig`` for no target or one named twice, and the errors of
    ``AotRegistry.emit``.
    """
    from importlib.metadata import version

    targets = registry.expanded(targets)
    if not targets or len(set(targets)) < len(targets):
        raise InvalidConfig(
            f"the targets are {', '.join(targets) or 'none'}", fix="name at least one target, each of them once."
        )
    programs: dict[str, Program] = {}
    for name, program in entries.items():
        check_rules(program).raise_if_invalid()
        if config.spec is not None:
            program = with_constants(program, spec_literals(program, config.spec))
        programs[name] = replace(program, workgroup_size=config.workgroup or program.workgroup_size, name=name)
    settings = replace(config, workgroup=None, spec=None)
    builds = tuple(
        registry.emit(AotTargetId(target), each, settings)
        for target in targets
        for program in programs.values()
        for each in _forms(without_calls(program), form(target, program))
    )
    codes: dict[bytes, BundledCode] = {}
    for code in (code for build in builds for code in build.codes):
        codes.setdefault(code.key.digest, code)
    return Built(Bundle(version("vyre"), programs, tuple(codes.values())), builds)
