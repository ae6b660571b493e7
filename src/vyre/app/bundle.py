"""Loading and running bundles: without compiler, validator and program, and with the same bytes as a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.bundles.files import read_bundle
from vyre.adapters.discovery import find_backend, load_catalog
from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.app.host_arrays import HostInputs, HostOutputs
from vyre.app.launches import Launches
from vyre.app.output_shapes import OutputShapes
from vyre.app.result import Result
from vyre.app.selection import AUTO, FORCE_VARIABLE
from vyre.app.services import WIRING, installed
from vyre.app.shorthand import merged
from vyre.domain.arguments import expect as expect_kind
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, BackendUnavailable, InvalidResource, UnusableBundle, used_in_a_fork
from vyre.domain.ir.buffers import Buffer, outputs_of
from vyre.domain.unique import Closing
from vyre.ports.backend import BackendCatalog, BackendRole
from vyre.ports.execution import CompiledPipeline
from vyre.ports.interrupts import sealed, whole
from vyre.ports.support import OF_THE_PROCESS, Surroundings

if TYPE_CHECKING:
    from vyre.adapters.bundles.manifest import Loaded
    from vyre.app.pipeline import Inputs
    from vyre.domain.names import Grid, Size
    from vyre.ports.bundles import Bundle, BundleRunner, BundleSupport

PIPELINES: Final = 64
"""Number of configs for which one bundle keeps a prepared pipeline."""


def load_bundle(path: Path | str, *, backend: str = AUTO, expect: str | None = None) -> LoadedBundle:
    """Loads the bundle in the file at ``path`` onto a device; call the result with inputs, and close it after use.

    ``backend``: a backend that runs bundles, such as ``cuda``, or ``cuda-machine``, which emulates a device.  ``auto``
    is the backend that ``VYRE_BACKEND`` names, or the first production backend that can run the bundle here.
    ``expect``: the hexadecimal digest of the file; any other file is refused before any of its code is loaded.

    Raises ``UnreadableFile``, ``MalformedBundle`` for anything except a whole bundle, ``UnexpectedDigest``,
    ``BackendUnavailable``, and ``UnusableBundle`` with every member and the reason if none runs on the device.
    """
    expect_kind("backend", backend, str, "the name of a backend")
    expect_kind("expect", expect, (str, type(None)), "a digest in hexadecimal, or None")
    wiring = WIRING.get()
    environment = wiring.environment()
    if backend == AUTO:
        backend = (environment.get(FORCE_VARIABLE) or "").strip() or AUTO
    facets = production_facets(installed()) if backend == AUTO else {backend: facet_of(backend)}
    loaded = read_bundle(path_of("path", path), tuple(facets.values()), expect)
    surroundings = Surroundings(environment, wiring.profiler(environment), wiring.clock().now_ns)
    return LoadedBundle(loaded, open_first(facets, loaded.bundle, surroundings))


def facet_of(backend: str) -> BundleSupport:
    """Returns the bundle facet of the backend with this id.

    Raises ``BackendUnavailable`` for a backend that runs no bundles.
    """
    is_usual = WIRING.get().catalog is load_catalog
    registration = find_backend(backend) if is_usual else installed().get(backend)
    if registration is None or registration.bundles is None:
        able = [each.id for each in installed().by_precedence() if each.bundles is not None]
        raise BackendUnavailable(f"backend `{backend}` runs no bundles", fix=f"use one of {', '.join(able) or 'none'}.")
    return registration.bundles()


def production_facets(catalog: BackendCatalog) -> dict[str, BundleSupport]:
    """Returns the bundle facets of the production backends by id, in the order of precedence."""
    return {
        each.id: each.bundles()
        for each in catalog.by_precedence()
        if each.role is BackendRole.PRODUCTION and each.bundles is not None
    }


def open_first(
    facets: dict[str, BundleSupport], bundle: Bundle, surroundings: Surroundings = OF_THE_PROCESS
) -> BundleRunner:
    """Loads the bundle on the first backend that is available and can run it.

    Raises the error of the first backend, with a note for each of the others.
    """
    failures: list[tuple[str, BackendError]] = []
    for backend, facet in facets.items():
        try:
            return facet.open(bundle, surroundings)
        except (BackendUnavailable, UnusableBundle) as error:
            failures.append((backend, error))
    if not failures:
        raise BackendUnavailable("no production backend that runs bundles is installed")
    (_, first), *others = failures
    for other, failure in others:
        first.add_note(f"backend `{other}`: {failure.message}")
    raise first


class LoadedBundle(Closing):
    """A compiled program on a device, from ``load_bundle`` to ``close``; every method may be called from any thread.

    ``digest`` is the digest of the file, and ``program`` that of the program it was built from, as the file states it;
    both are hexadecimal.  ``image`` is the member that runs.
    """

    def __init__(self, loaded: Loaded, runner: BundleRunner) -> None:
        bundle = loaded.bundle
        self.digest: Final = loaded.digest.hex()
        self.program: Final = bundle.program.hex()
        self.name: Final = bundle.name
        self.backend: Final = str(runner.backend)
        self.image: Final = runner.image
        self._bundle = bundle
        self._runner = runner
        self._inputs = HostInputs(bundle)
        self._outputs = HostOutputs(outputs_of(bundle.buffers))
        self._prepared: dict[DispatchConfig, _Prepared] = {}
        self._lock = process_lock()
        self._closed = self._is_inherited = False
        self._opened_in = os.getpid()
        tell_in_forks(self)

    def inherited(self) -> None:
        """Marks the bundle as closed in a forked process."""
        self._closed = self._is_inherited = True

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        """The buffers that a caller binds, in binding order."""
        return self._bundle.buffers

    def __call__(
        self,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        *,
        grid: Grid | None = None,
        extent: Grid | None = None,
        output_counts: Mapping[str, Size] | None = None,
        race_check: bool = False,
    ) -> Result:
        """Runs once, as ``Session.dispatch`` runs the program.

        The workgroup size and the specialization constants were fixed when the bundle was built.  Raises what
        ``Session.dispatch`` raises.
        """
        if self._closed:
            self._check_process()
            raise InvalidResource("the bundle is closed", fix="load it again with vyre.load_bundle().")
        prepared = self._prepare(merged(config, grid, extent, output_counts, race_check=race_check))
        try:
            views = self._inputs.views(inputs)
            storage = self._outputs.storage(prepared.shapes.of(inputs))
            timing = prepared.pipeline.dispatch(views, storage)
        except BackendError as error:
            error.add_note(f"backend={self.backend} bundle={self.name or 'unnamed'} image={self.image}")
            raise
        arrays, launches = self._outputs.arrays(storage), prepared.launches
        return Result(self._outputs.names, arrays, timing, self.backend, launches, launches.lengths(views))

    def recover(self) -> None:
        """Reopens the device after ``DeviceLost``; the code is loaded again on its next use."""
        self._check_process()
        self._runner.recover()

    @whole
    def close(self) -> None:
        """Releases the device; idempotent, and without effect in a forked process."""
        self._closed = True
        if not self._is_inherited:
            self._runner.close()

    def __repr__(self) -> str:
        return f"<LoadedBundle {self.name or 'unnamed'} {self.image} on {self.backend}>"

    def _check_process(self) -> None:
        if self._is_inherited:
            raise used_in_a_fork(f"the bundle on `{self.backend}`", self._opened_in, os.getpid())

    def _prepare(self, config: DispatchConfig) -> _Prepared:
        if config.output_counts is not None:  # a mapping, which has no hash
            return self._prepared_anew(config)
        with self._lock, sealed:
            prepared = self._prepared.get(config)
            if prepared is None:
                prepared = self._prepared[config] = self._prepared_anew(config)
                if len(self._prepared) > PIPELINES:
                    del self._prepared[next(iter(self._prepared))]
            return prepared

    def _prepared_anew(self, config: DispatchConfig) -> _Prepared:
        bundle = self._bundle
        return _Prepared(
            self._runner.pipeline(config),
            OutputShapes(bundle, config),
            Launches(bundle.abi_buffers, lambda: bundle.interface, config),
        )


class _Prepared(NamedTuple):
    """The state that all dispatches of a bundle under one config share."""

    pipeline: CompiledPipeline
    shapes: OutputShapes
    launches: Launches
