"""Values of a dispatch: its configuration, its timing and the caller's output storage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from enum import Enum, IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from vyre.domain.arguments import expect, whole
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.frozen import frozen
from vyre.domain.geometry import ReachedExtent
from vyre.domain.ir.numpy_scalars import python_number, whole_number
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.names import Dim3, Grid, Size
from vyre.domain.printable import kind_of, shown

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    from vyre.domain.specialization import SpecInput, SpecMap

# NumPy's stubs give ndarray a __buffer__ only for targets from 3.12 on, hence the explicit member.
ReadableBuffer: TypeAlias = "Buffer | npt.NDArray[Any]"
U32_MAX: Final = 0xFFFF_FFFF


class SpeculationMode(Enum):
    """Whether ``Session.speculate`` and ``specialize`` may, must or must not work ahead of what is certain."""

    AUTO = "auto"
    FORCE = "force"
    DISABLE = "disable"


class PersistentThreadMode(Enum):
    """Whether ``Session.dispatch_many`` may, must or must not run its items on persistent threads."""

    AUTO = "auto"
    FORCE = "force"
    DISABLE = "disable"


class TimingQuality(IntEnum):
    """The precision of a backend's timings, ascending."""

    HOST_ONLY = 0
    HOST_ENQUEUE_WAIT = 1
    DEVICE_TIMESTAMPS = 2
    HARDWARE_COUNTERS = 3

    @property
    def text(self) -> str:
        """Returns the name that reports use; it is stable."""
        return self.name.lower()


@frozen(kw_only=True)
class DispatchConfig:
    """The configuration of one dispatch.

    Backends only read it, and refuse (``UnsupportedFeature``) a set field that they cannot honour.  Values out of
    range raise ``InvalidConfig``.

    ``grid`` counts workgroups per axis.  ``extent`` counts lanes per axis; grid = ceil(extent / workgroup).
    ``workgroup`` replaces the program's workgroup size, in lanes per axis.  Each is an int or a tuple of one to three
    ints; the fields ``grid`` and ``workgroup`` hold three, with 1 for axes that were left out.  For example,
    ``grid=4`` is stored as ``(4, 1, 1)``.  An extent with an axis of 0 runs nothing.

    ``spec``: values of ``SpecConst`` by name; plain numbers are typed as in ``SpecMap``; other types are refused.
    ``output_counts``: numbers of elements, by name, of backend-allocated buffers whose size is left open.
    ``step_budget``: the number of loop back-edges that a lane may take.
    ``race_check``: data races are reported (by the reference and ``cuda-machine``; ``auto`` takes the reference).
    ``chunk_workgroups``: the number of workgroups that the vectorised engine runs at once (None = it chooses).
    ``timeout_s``: seconds for the whole dispatch.
    ``max_output_bytes``: an upper bound of the sum of returned bytes.
    ``element_count_override``: the number of elements from which a one-dimensional grid is computed.
    ``ulp_budget``: the error, in units in the last place, that transcendentals may have (0 and None: none).
    ``fixpoint_iterations``: the number of back-to-back launches before the outputs are read; see ``launches``.
    ``profile``: the name of a code generation profile that the backend offers.
    ``label``: a name for logs.
    ``optimize``: whether the optimizer may prepare the program where that pays; no result depends on it.
    ``pad_grid``: whether each axis of a given grid or extent is rounded up to a power of two workgroups; those that
    this adds end at once, and no result depends on it.  Sessions make programs whose surplus workgroups end
    (``padding.masked``), and backends launch them.
    """

    grid: Dim3 | None = None
    extent: tuple[int, ...] | None = None
    workgroup: Dim3 | None = None
    spec: SpecMap | None = None
    output_counts: Mapping[str, int] | None = field(default=None, hash=False)
    step_budget: int | None = None
    race_check: bool = False
    chunk_workgroups: int | None = None
    profile: str | None = None
    ulp_budget: int | None = None
    timeout_s: float | None = None
    label: str | None = None
    max_output_bytes: int | None = None
    element_count_override: int | None = None
    fixpoint_iterations: int | None = None
    speculation: SpeculationMode | None = None
    persistent_thread: PersistentThreadMode | None = None
    cooperative: bool = False
    optimize: bool = True
    pad_grid: bool = False

    if TYPE_CHECKING:  # the parameters accept more types than the fields hold

        def __init__(
            self,
            *,
            grid: Grid | None = None,
            extent: Grid | None = None,
            workgroup: Grid | None = None,
            spec: Mapping[str, SpecInput] | None = None,
            output_counts: Mapping[str, Size] | None = None,
            step_budget: int | None = None,
            race_check: bool = False,
            chunk_workgroups: int | None = None,
            profile: str | None = None,
            ulp_budget: int | None = None,
            timeout_s: float | None = None,
            label: str | None = None,
            max_output_bytes: int | None = None,
            element_count_override: int | None = None,
            fixpoint_iterations: int | None = None,
            speculation: SpeculationMode | None = None,
            persistent_thread: PersistentThreadMode | None = None,
            cooperative: bool = False,
            optimize: bool = True,
            pad_grid: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("grid", "extent", "workgroup"):
            counts = getattr(self, name)
            if counts is not None:
                axes = axes_of(name, counts)
                object.__setattr__(self, name, axes if name == "extent" else (*axes, 1, 1)[:3])
        if self.grid is not None and self.extent is not None:
            raise InvalidConfig(
                "both grid and extent are set", fix="give one of them: grid = ceil(extent / workgroup)."
            )
        if self.spec is not None:
            object.__setattr__(self, "spec", _spec_map(self.spec))
        if self.output_counts is not None:
            object.__setattr__(self, "output_counts", _counts(self.output_counts))
        for name, low, high in _NUMBERS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole(name, value, low, high))
        for name, kind, wanted in _KINDS:
            value = getattr(self, name)
            if value is not None or kind is bool:
                expect(name, value, kind, wanted)
        if self.timeout_s is not None:
            object.__setattr__(self, "timeout_s", python_number(self.timeout_s))
            expect("timeout_s", self.timeout_s, (int, float), "seconds, or None")
            if self.timeout_s is True or not 0.0 < self.timeout_s <= U32_MAX:
                raise InvalidConfig(
                    f"timeout_s={shown(self.timeout_s)} is not above 0 and at most 2^32-1",
                    fix="give seconds, or leave it out.",
                )

    @property
    def launches(self) -> int:
        """Returns the number of back-to-back launches before the outputs are read, at least 1."""
        return launches_of(self.fixpoint_iterations)


_NUMBERS: Final = (
    ("step_budget", 0, None),
    ("chunk_workgroups", 1, None),
    ("ulp_budget", 0, 255),
    ("max_output_bytes", 0, None),
    ("element_count_override", 0, U32_MAX),
    ("fixpoint_iterations", 1, U32_MAX),
)
_KINDS: Final[tuple[tuple[str, type, str], ...]] = (
    ("race_check", bool, "True or False"),
    ("cooperative", bool, "True or False"),
    ("optimize", bool, "True or False"),
    ("pad_grid", bool, "True or False"),
    ("profile", str, "a name, or None"),
    ("label", str, "a text, or None"),
    ("speculation", SpeculationMode, "a SpeculationMode, or None"),
    ("persistent_thread", PersistentThreadMode, "a PersistentThreadMode, or None"),
)


def launches_of(fixpoint_iterations: int | None) -> int:
    """Returns the number of launches that a valid ``fixpoint_iterations`` requests: 1 if it is None."""
    return 1 if fixpoint_iterations is None else fixpoint_iterations


def axes_of(name: str, value: object) -> tuple[int, ...]:
    """Returns ``value`` as a tuple; a number is the size of the first axis.  Raises ``InvalidConfig``.

    An extent may have no lanes.
    """
    least = 0 if name == "extent" else 1
    axes = value if isinstance(value, tuple) else (value,)
    if not isinstance(value, tuple) and whole_number(value) is None:
        raise InvalidConfig(
            f"{name}={shown(value)} is {kind_of(value)}", fix="give an int, or a tuple of one to three."
        )
    if not 1 <= len(axes) <= 3:
        raise InvalidConfig(f"{name}={shown(value)} has {len(axes)} axes", fix="give one to three values.")
    sizes = [whole(f"{name}.{axis}", size, least, U32_MAX) for axis, size in zip("xyz", axes, strict=False)]
    return ReachedExtent(sizes) if type(value) is ReachedExtent else tuple(sizes)


def _spec_map(spec: object) -> SpecMap:
    from vyre.domain.specialization import SpecMap  # a bundle has fixed constants and never imports it

    expect("spec", spec, Mapping, "a mapping from names to values")
    return spec if isinstance(spec, SpecMap) else SpecMap(spec)  # type: ignore[arg-type]  # checked above


def _counts(counts: object) -> dict[str, int]:
    """Returns a copy, so that later changes by the caller do not change the config."""
    expect("output_counts", counts, Mapping, "a mapping from buffer names to counts")
    assert isinstance(counts, Mapping)  # checked above
    for name in counts:
        expect("a name in output_counts", name, str, "the name of a buffer")
    return {name: whole(f"output_counts[{name!r}]", count, 0, U32_MAX) for name, count in counts.items()}


DEFAULT_CONFIG: Final = DispatchConfig()
_NO_FIXES: Final[Mapping[str, str]] = MappingProxyType({})
_FORCED_BY: Final = {
    "speculation": "give it to the confirmer of session.speculate, or to session.specialize.",
    "persistent_thread": "give it to session.dispatch_many or session.persistent.",
}
"""What takes a mode that a dispatch by itself does not have."""


@lru_cache(64)
def without_mode(config: DispatchConfig, name: str) -> DispatchConfig:
    """Returns the config without the mode ``name``, which the caller heeds: the same object for equal configs."""
    return replace(config, **{name: None})  # type: ignore[arg-type]  # a field that may be None


def refuse_unsupported(
    config: DispatchConfig, backend: str, honoured: Collection[str], fixes: Mapping[str, str] = _NO_FIXES
) -> None:
    """Raises ``UnsupportedFeature`` for a field that is set, and that the backend does not honour and need not.

    ``honoured`` are the names of the fields that the backend honours, out of ``step_budget``, ``race_check``,
    ``chunk_workgroups``, ``timeout_s``, ``profile``, ``cooperative``, ``speculation`` and ``persistent_thread``; the
    last two are refused where the mode is forced.  ``fixes`` says by field what its error advises.
    """
    for name, wanted, feature in (
        ("step_budget", config.step_budget is not None, "step_budget"),
        ("race_check", config.race_check, "race_check"),
        ("chunk_workgroups", config.chunk_workgroups is not None, "chunk_workgroups"),
        ("timeout_s", config.timeout_s is not None, "timeout_s"),
        ("speculation", config.speculation is SpeculationMode.FORCE, "speculation"),
        ("persistent_thread", config.persistent_thread is PersistentThreadMode.FORCE, "persistent threads"),
        ("profile", config.profile is not None, f"profile {config.profile!r}"),
        ("cooperative", config.cooperative, "cooperative launches"),
    ):
        if wanted and name not in honoured:
            raise UnsupportedFeature(feature=feature, backend=str(backend), fix=fixes.get(name, _FORCED_BY.get(name)))


REMEMBERED_TIMINGS: Final = 64
"""The dispatches of a pipeline whose timings are kept, the latest ones."""


class DispatchTiming(NamedTuple):
    """Durations of a dispatch in nanoseconds; None means not measured.

    ``wall_ns``: the whole dispatch.
    ``device_ns``: from the start of the first kernel to the end of the last.
    ``enqueue_ns``: host time before waiting.
    ``wait_ns``: waiting and readback; None also where everything had ended before.
    ``launches``: the number of kernels that were launched and not replayed; where a backend always submits them as one
    list, as ``cpu`` does by default, those of the list.
    ``launch_ns``: host time of submitting one of them.
    ``rounds``: the rounds that a sequence with a flag ran; None for any other.
    ``converged``: whether the last of them left the flag at 0; False if there was none.
    """

    wall_ns: int
    device_ns: int | None = None
    enqueue_ns: int | None = None
    wait_ns: int | None = None
    launches: int | None = None
    launch_ns: int | None = None
    rounds: int | None = None
    converged: bool | None = None

    def _repr_html_(self) -> str:
        """Returns a piece of HTML for notebooks."""
        return _view(self)


_view: Final[FunctionAbove[[DispatchTiming], str]] = FunctionAbove("DispatchTiming._repr_html_")


class OutputArena:
    """Reusable storage for the outputs of a dispatch, one slot per returned buffer in binding order.

    Not thread-safe: use one arena per dispatching thread.  A slot's storage is reused when the next result fits and
    replaced, never resized, when it does not, so that an old view stays valid memory.  ``generation`` counts
    dispatches; a view is stale once it has changed.
    """

    __slots__ = ("_generation", "_lengths", "_storage")

    def __init__(self) -> None:
        self._storage: list[bytearray] = []
        self._lengths: tuple[int, ...] = ()
        self._generation = 0

    @property
    def generation(self) -> int:
        """Returns the number of dispatches that used this arena; views of earlier generations are stale."""
        return self._generation

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, slot: int) -> memoryview:
        """Returns a read-only view of the bytes of one slot."""
        return memoryview(self._storage[slot])[: self._lengths[slot]].toreadonly()

    def begin(self, sizes: tuple[int, ...]) -> tuple[memoryview, ...]:
        """Returns writable views of ``sizes`` bytes for a new result; their content is undefined."""
        self._generation += 1
        self._lengths = sizes
        for slot, size in enumerate(sizes):
            if slot == len(self._storage):
                self._storage.append(bytearray(size))
            elif len(self._storage[slot]) < size:
                self._storage[slot] = bytearray(size)
        return tuple(memoryview(self._storage[i])[:size] for i, size in enumerate(sizes))

    def clear(self) -> None:
        """Discards the result, since a failed dispatch has no outputs; keeps the storage."""
        self._generation += 1
        self._lengths = ()

    def to_bytes(self) -> tuple[bytes, ...]:
        """Returns a copy of every slot."""
        return tuple(bytes(self[slot]) for slot in range(len(self)))
