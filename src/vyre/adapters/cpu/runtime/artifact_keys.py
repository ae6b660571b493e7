"""Keys of the objects that a compilation for the host yields.

Everything that decides the bytes is part of a key: the program, the values of its constants, the workgroup, every
option of the emitter and its own source, the features of the processor and the version of the compiler.  Names of
buffers are not: code knows buffers by their position.  Neither is the effort of the compiler: an entry holds the best
code that was made so far, and says which effort made it, so that one look-up finds it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.features import CpuFeatures, parse_features
from vyre.adapters.source_digest import LLVM, POOL, emitter_digest
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind, Facts, facts

if TYPE_CHECKING:
    from vyre.adapters.host.stored_code import KeyMaker
    from vyre.ports.artifact_store import Artifact, ArtifactStore


RUNTIME: Final = b"vyre runtime of worker threads".ljust(32, b"\0")
"""It takes the place of the digest of a program in the key of the worker threads' runtime."""


def object_keys(features: CpuFeatures, options: EmitOptions, compiler: str, system: str = "") -> KeyMaker:
    """Returns the maker of keys of objects.

    ``compiler`` is the version of LLVM, empty if none is installed.  ``system`` is a value of ``sys.platform`` for code
    that other machines load.
    """
    from vyre.adapters.host.stored_code import NO_PROGRAM, KeyMaker

    return KeyMaker(
        ArtifactKey(
            kind=ArtifactKind.OBJECT,
            target=features.arch,
            device=feature_facts(features),
            driver=system,
            tool=compiler,
            emitter=emitter_digest(LLVM),
            policy=facts({name: str(value).lower() for name, value in options._asdict().items()}),
            program=NO_PROGRAM,
        )
    )


def runtime_key(features: CpuFeatures, compiler: str) -> ArtifactKey:
    """Returns the key of the worker threads' runtime; ``compiler`` as for ``object_keys``."""
    return ArtifactKey(
        kind=ArtifactKind.OBJECT,
        target=features.arch,
        device=feature_facts(features),
        driver=sys.platform,
        tool=compiler,
        emitter=emitter_digest(POOL),
        program=RUNTIME,
    )


def features_of(key: ArtifactKey) -> CpuFeatures:
    """Returns the features that code under a key was compiled for."""
    return parse_features("+".join((key.target, *dict(key.device))))


def feature_facts(features: CpuFeatures) -> Facts:
    """Returns a fact for each feature, so that a cache miss on another processor names those that differ."""
    return facts(dict.fromkeys(features.features, "yes"))


def of_another_compiler(store: ArtifactStore, key: ArtifactKey) -> Artifact | None:
    """Returns a stored artifact whose key differs in the version of the compiler alone, None where there is none."""
    others = (other for other in store.neighbours(key) if key.differences(other) == ("tool",))
    return next((each for other in others if (each := store.get(other)) is not None), None)
