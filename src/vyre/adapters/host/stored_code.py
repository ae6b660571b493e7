"""Code in the artifact store: how a backend that compiles opens the store, and makes the keys of what it compiles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from vyre.adapters.kernel_source import KernelSource
from vyre.domain.artifact_key import ArtifactKey, KeyFamily
from vyre.domain.errors import MalformedBundle, MalformedWire
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3
from vyre.domain.specialization import SpecMap
from vyre.policies.journal import DecisionSink
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.backend import BackendServices
from vyre.ports.bundles import BundledCode

MAKERS: Final = 64
"""The number of ways of compiling whose key makers are kept."""
NO_PROGRAM: Final = bytes(32)
"""The digest in a key that is common to all programs."""
NO_CONSTANTS: Final = SpecMap()
Options = TypeVar("Options", bound=Hashable)
Layout = TypeVar("Layout")


def no_names(program: Program) -> tuple[str, ...]:
    """Returns the interface names of code that knows buffers by their position."""
    return ()


class KeyMaker:
    """Makes the keys of programs that are compiled in one way."""

    __slots__ = ("_family", "_names", "_slot")

    def __init__(self, common: ArtifactKey, names: Callable[[Program], tuple[str, ...]] = no_names) -> None:
        """Keeps the fields of ``common``, a key of any program, that do not depend on the program.

        ``names`` returns the names in a program's interface that decide about its code.
        """
        self._family: Final = KeyFamily(common)
        self._names: Final = names
        # Makers of equal keys share the cache slot on a program.
        self._slot: Final = f"artifact key {self._family.key(NO_PROGRAM, (), (1, 1, 1), b'').digest.hex()}"

    def key(self, program: Program, spec: SpecMap = NO_CONSTANTS, workgroup: Dim3 | None = None) -> ArtifactKey:
        """Returns the key of a program.

        ``spec`` has a value for every constant (``complete_spec``); ``workgroup`` replaces the program's.  The key for
        the objects of the last call is kept on the program.  Raises ``InvalidProgram`` if a name in the program does
        not resolve.
        """
        kept: Any = program._cache.get(self._slot)
        if kept is not None and kept[0] is spec and kept[1] == workgroup:
            return kept[2]  # type: ignore[no-any-return]
        size = workgroup or program.workgroup_size
        key = self._family.key(program_digest(program), self._names(program), size, spec.canonical_bytes())
        program._cache[self._slot] = (spec, workgroup, key)
        return key


class KeyMakers(Generic[Options]):
    """The makers of keys of one kind of code; those of the ``MAKERS`` latest ways of compiling are kept."""

    def __init__(self) -> None:
        self._makers: dict[Options, KeyMaker] = {}

    def key(self, source: KernelSource, options: Options, make: Callable[[], KeyMaker]) -> ArtifactKey:
        """Returns the key of the code of a source, by a new maker where none is kept for these options."""
        maker = self._makers.get(options)
        if maker is None:
            while len(self._makers) >= MAKERS:
                del self._makers[next(iter(self._makers))]
            maker = self._makers[options] = make()
        return maker.key(source.program, source.spec, source.sized.workgroup_size)


def layout_in(code: BundledCode, decode: Callable[[bytes], Layout]) -> Layout:
    """Returns the layout of code in a bundle.  Raises ``MalformedBundle`` for one that this version does not read."""
    try:
        return decode(code.artifact.metadata)
    except MalformedWire as error:
        raise MalformedBundle(f"its code {code.name} is refused: {error.message}") from None


class StoredCode:
    """The base of makers of code, with the services of their session and its store of artifacts."""

    def __init__(self, backend: str, services: BackendServices) -> None:
        self._backend: Final = backend
        self._services: Final = services
        self.decisions: Final[DecisionSink | None] = services.decisions
        """The sink of decisions about the code."""
        self._store: ArtifactStore | None = None
        self._opened = False

    @property
    def optimizes(self) -> bool:
        """Returns whether the session allows the optimizer."""
        return self._services.optimize

    def _open(self) -> ArtifactStore | None:
        """Opens the store at first use: a session that compiles nothing opens no directory."""
        if not self._opened:
            self._store = self._services.artifacts()
            self._opened = True
        return self._store

    def _warn(self, name: str, **fields: object) -> None:
        self._services.telemetry.event(name, level="warning", backend=self._backend, **fields)
