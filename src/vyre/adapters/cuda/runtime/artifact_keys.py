"""Keys of the results of a CUDA compilation: PTX, and the machine code of one device.

Everything that decides the bytes is part of a key: the program and the interface names that the layout contains, the
values of its constants, every option of the emitter, the emitter's own source; for machine code also the device, its
driver and the assembler.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts
from vyre.adapters.source_digest import emitter_digest
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind, Facts, KeyFamily, facts
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3
from vyre.domain.specialization import SpecMap

_INTERFACE: Final = "interface names"
_NO_PROGRAM: Final = bytes(32)
NO_CONSTANTS: Final = SpecMap()


class KeyMaker:
    """Makes the keys of programs that are compiled in one way."""

    __slots__ = ("_family", "_slot")

    def __init__(self, common: ArtifactKey) -> None:
        """Keeps the fields of ``common``, a key of any program, that do not depend on the program."""
        self._family: Final = KeyFamily(common)
        # Makers of equal keys share the cache slot on a program.
        self._slot: Final = f"artifact key {self._family.key(_NO_PROGRAM, (), (1, 1, 1), b'').digest.hex()}"

    def key(self, program: Program, spec: SpecMap = NO_CONSTANTS, workgroup: Dim3 | None = None) -> ArtifactKey:
        """Returns the key of a program.

        ``spec`` has a value for every constant (``complete_spec``); ``workgroup`` replaces the program's.  The key for
        the objects of the last call is kept on the program.  Raises ``InvalidProgram`` if a name in the program does
        not resolve.
        """
        found: Any = program._cache.get(self._slot)
        if found is not None and found[0] is spec and found[1] == workgroup:
            return found[2]  # type: ignore[no-any-return]
        key = self._family.key(
            program_digest(program),
            interface_names(program),
            workgroup or program.workgroup_size,
            spec.canonical_bytes(),
        )
        program._cache[self._slot] = (spec, workgroup, key)
        return key


def ptx_keys(options: EmitOptions) -> KeyMaker:
    """Returns the maker of keys of PTX, which depends on device and driver only through the options."""
    return KeyMaker(_common(ArtifactKind.PTX, options))


def cubin_keys(options: EmitOptions, device: CudaDeviceFacts, tool: str) -> KeyMaker:
    """Returns the maker of keys of machine code.

    The code is assembled from PTX by ``tool`` (``CodeTool.named``) for ``device`` and loaded by its driver.
    """
    return KeyMaker(
        _common(
            ArtifactKind.CUBIN,
            options,
            device=facts({"sm": str(device.target)}),
            driver=str(device.driver_version),
            tool=tool,
        )
    )


def interface_names(program: Program) -> tuple[str, ...]:
    """Returns number and name of every binding: the layout of a kernel contains both, the digest of a program
    neither.
    """
    found: Any = program._cache.get(_INTERFACE)
    if found is None:
        found = tuple(f"{buffer.binding} {buffer.name}" for buffer in program.abi_buffers)
        program._cache[_INTERFACE] = found
    return found  # type: ignore[no-any-return]


def policy_facts(options: EmitOptions) -> Facts:
    """Returns every option except the target, which is a field of its own in a key."""
    return facts({name: text for name, text in _written(options) if name != "target"})


def _common(kind: ArtifactKind, options: EmitOptions, **more: Any) -> ArtifactKey:
    return ArtifactKey(
        kind=kind,
        target=f"sm_{options.target}",
        emitter=emitter_digest(),
        policy=policy_facts(options),
        program=_NO_PROGRAM,
        **more,
    )


def _written(options: Any) -> list[tuple[str, str]]:
    """Returns the fields of a dataclass with their texts; fields of a nested dataclass have dotted names."""
    found: list[tuple[str, str]] = []
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            found += [(f"{field.name}.{name}", text) for name, text in _written(value)]
        else:
            found.append((field.name, _text(value)))
    return found


def _text(value: object) -> str:
    """Returns a text of a value; different values of one option have different texts."""
    match value:
        case None | bool():
            return str(value).lower()
        case int() | str():
            return str(value)
        case Enum():
            return str(value.value)
        case tuple():
            return ".".join(map(_text, value))
        case frozenset():
            return ",".join(sorted(map(_text, value)))
    raise TypeError(f"no key has an option of type {type(value).__name__}")
