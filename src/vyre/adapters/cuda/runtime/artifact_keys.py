"""Keys of the results of a CUDA compilation: PTX, and the machine code of one device.

Everything that decides the bytes is part of a key: the program and the interface names that the layout contains, the
values of its constants, every option of the emitter, the emitter's own source; for machine code also the device, its
driver and the assembler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts
from vyre.adapters.host.stored_code import NO_PROGRAM, KeyMaker
from vyre.adapters.source_digest import emitter_digest
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind, Facts, facts
from vyre.domain.ir.location_table import table_of
from vyre.domain.ir.program import Program, kept_with_program


def ptx_keys(options: EmitOptions) -> KeyMaker:
    """Returns the maker of keys of PTX, which depends on device and driver only through the options."""
    return KeyMaker(_common(ArtifactKind.PTX, options), _names(options))


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
        ),
        _names(options),
    )


@kept_with_program("interface names")
def interface_names(program: Program) -> tuple[str, ...]:
    """Returns number and name of every binding: the layout of a kernel contains both, the digest of a program
    neither.
    """
    return tuple(f"{buffer.binding} {buffer.name}" for buffer in program.abi_buffers)


def _names(options: EmitOptions) -> Callable[[Program], tuple[str, ...]]:
    return _located_names if options.located else interface_names


def _located_names(program: Program) -> tuple[str, ...]:
    """Returns ``interface_names`` and a digest of the locations, which the text names and no other part of a key."""
    from hashlib import sha256

    return (*interface_names(program), f"locations {sha256(repr(table_of(program)).encode()).hexdigest()}")


def policy_facts(options: EmitOptions) -> Facts:
    """Returns every option except the target, which is a field of its own in a key."""
    return facts({name: text for name, text in _written(options) if name != "target"})


def _common(kind: ArtifactKind, options: EmitOptions, **more: Any) -> ArtifactKey:
    return ArtifactKey(
        kind=kind,
        target=f"sm_{options.target}",
        emitter=emitter_digest(),
        policy=policy_facts(options),
        program=NO_PROGRAM,
        **more,
    )


def _written(options: Any) -> list[tuple[str, str]]:
    """Returns the fields of a dataclass with their texts; fields of a nested dataclass have dotted names."""
    texts: list[tuple[str, str]] = []
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            texts += [(f"{field.name}.{name}", text) for name, text in _written(value)]
        else:
            texts.append((field.name, _text(value)))
    return texts


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
