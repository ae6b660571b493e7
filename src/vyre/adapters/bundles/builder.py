"""Building a bundle from a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidConfig
from vyre.domain.interface import interface_of
from vyre.domain.ir.program import Program
from vyre.domain.ir.size_parameters import written_sizes
from vyre.domain.specialization import spec_literals
from vyre.domain.validation.validator import check_rules
from vyre.ports.aot import AotRegistry
from vyre.ports.bundles import AotTargetId, Bundle, SpecConstant


def build_bundle(
    program: Program,
    targets: Sequence[str],
    registry: AotRegistry,
    config: DispatchConfig = DEFAULT_CONFIG,
    forms: Mapping[str, Program] = MappingProxyType({}),
) -> Bundle:
    """Returns a bundle of ``program`` for each of ``targets``, under the ``workgroup`` and ``spec`` of ``config``.

    ``forms`` are valid programs that stand for it on some of the targets, with the same interface.

    Raises ``InvalidProgram``, ``InvalidConfig`` for no target or one named twice, and the errors of
    ``AotRegistry.emit``.
    """
    from importlib.metadata import version

    check_rules(program).raise_if_invalid()
    if not targets or len(set(targets)) < len(targets):
        raise InvalidConfig(
            f"the targets are {', '.join(targets) or 'none'}", fix="name at least one target, each of them once."
        )
    interface = interface_of(program)
    literals = spec_literals(program, config.spec)
    return Bundle(
        program=program.digest,
        name=program.name,
        vyre=version("vyre"),
        workgroup=config.workgroup or program.workgroup_size,
        driven_by_input=interface.driven_by_input,
        reach=interface.reach(),
        buffers=program.abi_buffers,
        sizes=written_sizes(program.sizes, program.abi_buffers),
        spec=tuple(SpecConstant(name, value.dtype.text, value.bits) for name, value in sorted(literals.items())),
        builds=tuple(registry.emit(AotTargetId(target), forms.get(target, program), config) for target in targets),
    )
