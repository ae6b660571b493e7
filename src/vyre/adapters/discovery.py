"""Discovery of backends: the built-in ones, then the entry points of group ``vyre.backends``.

The value of an entry point is a ``BackendRegistration``.  Loading it opens no device.  A plug-in that cannot be
imported, is not a registration, is written for another version of the port, or has the id of an earlier one becomes a
``DiscoveryFailure``; the other plug-ins are still loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from vyre.adapters.files import exists, is_directory
from vyre.ports.backend import PORT_API_VERSION, BackendCatalog, BackendRegistration, DiscoveryFailure

GROUP: Final = "vyre.backends"


class PluginReference(NamedTuple):
    """A reference to a plug-in; ``value`` is ``module:attribute``, as in an entry point."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


BUILTIN: Final = (
    PluginReference("reference", "vyre.adapters.reference.registration:REFERENCE"),
    PluginReference("reference-scalar", "vyre.adapters.reference.registration:REFERENCE_SCALAR"),
    PluginReference("cpu", "vyre.adapters.cpu.registration:CPU"),
    PluginReference("cuda", "vyre.adapters.cuda.registration:CUDA"),
    PluginReference("cuda-machine", "vyre.adapters.cuda.registration:CUDA_MACHINE"),
)
"""Built-in backends, which need no package metadata, so that source checkouts and frozen applications find them."""


def load_catalog() -> BackendCatalog:
    """Returns the catalog of this process: built-in backends first, then installed plug-ins."""
    return assemble_catalog((*BUILTIN, *installed_plugins()))


def find_backend(name: str) -> BackendRegistration | None:
    """Returns the registration of this id.  For a built-in backend nothing is imported except its own registration."""
    builtin = next((reference for reference in BUILTIN if reference.name == name), None)
    loaded = None if builtin is None else _load(builtin)
    return loaded if isinstance(loaded, BackendRegistration) else load_catalog().get(name)


def assemble_catalog(references: Iterable[PluginReference]) -> BackendCatalog:
    """Loads every reference, in order; the first one with an id wins.  A repeated reference is not a duplicate."""
    registrations: dict[str, BackendRegistration] = {}
    failures: list[DiscoveryFailure] = []
    for reference in dict.fromkeys(references):
        loaded = _load(reference)
        if isinstance(loaded, str):
            failures.append(DiscoveryFailure(str(reference), loaded))
        elif loaded.id in registrations:
            failures.append(DiscoveryFailure(str(reference), f"the backend id `{loaded.id}` is already taken"))
        else:
            registrations[loaded.id] = loaded
    return BackendCatalog(tuple(registrations.values()), tuple(failures))


def installed_plugins() -> tuple[PluginReference, ...]:
    """Returns the entry points of the group, by name.  Package metadata is read only if a package may have such entry
    points.
    """
    if not any(_may_have_plugins(Path(entry)) for entry in dict.fromkeys(sys.path)) and not _foreign_finders():
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted({PluginReference(point.name, point.value) for point in entry_points(group=GROUP)}))


def _load(reference: PluginReference) -> BackendRegistration | str:
    """Returns the registration, or the reason why it could not be loaded."""
    module, _, attribute = reference.value.partition(":")
    try:
        plugin: object = import_module(module)
        for name in attribute.split("."):
            plugin = getattr(plugin, name)
    except Exception as error:  # a plug-in may fail in any way, which must not stop the others
        return f"{type(error).__name__}: {error}"
    if not isinstance(plugin, BackendRegistration):
        return f"it is a {type(plugin).__name__}, not a BackendRegistration"
    if plugin.api_version != PORT_API_VERSION:
        return f"it is written for port version {plugin.api_version}; this is version {PORT_API_VERSION}"
    return plugin


def _may_have_plugins(folder: Path) -> bool:
    """Returns whether a package installed in this ``sys.path`` entry, other than vyre itself, may declare plug-ins.

    Importing ``importlib.metadata`` costs as much as half of NumPy; searching the ``entry_points.txt`` files for the
    name of the group is some hundred times cheaper.  For an existing entry that is not a folder (a zip) the answer is
    yes.
    """
    if not is_directory(folder):
        return exists(folder)
    try:
        with os.scandir(folder) as entries:
            infos = [each for each in entries if _is_metadata(each.name)]
            return any(_names_the_group(each.path, each.stat().st_mtime_ns) for each in infos)
    except OSError:  # nobody may read it, or it changes just now
        return False


def _is_metadata(name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info")) and name.rpartition(".")[0].partition("-")[0] != "vyre"


@lru_cache(1 << 12)
def _names_the_group(info: str, changed_ns: int) -> bool:
    """``changed_ns``: when a file in the folder was last added, replaced or removed, as an installation does."""
    try:
        return GROUP in (Path(info) / "entry_points.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False  # most packages declare none


def _foreign_finders() -> bool:
    """Returns whether import hooks of other packages may provide distributions."""
    return any(
        hasattr(finder, "find_distributions") and getattr(finder, "__module__", "") != "_frozen_importlib_external"
        for finder in sys.meta_path
    )
