"""``HostOptions`` sets the number of threads on the processor of this machine, and the CPUs on which they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

from vyre.domain.arguments import whole
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.printable import shown
from vyre.domain.record import IntRange, record

MOST_THREADS: Final = 1023
_MOST_CPUS: Final = 1 << 16
CpuNumber: TypeAlias = Annotated[int, IntRange(0, _MOST_CPUS - 1)]


@record
class HostOptions:
    """Options of backends that run programs on the processor of this machine.

    ``threads`` is the number of threads that take part in a launch at most, ``affinity`` the numbers of the CPUs on
    which worker threads run.  None leaves the choice to the environment, or else to the backend.
    """

    threads: Annotated[int, IntRange(1, MOST_THREADS)] | None = None
    affinity: frozenset[CpuNumber] | None = None

    @property
    def given(self) -> bool:
        """Whether any option is set."""
        return self.threads is not None or self.affinity is not None


NO_HOST_OPTIONS: Final = HostOptions()


def host_options(threads: int | None = None, affinity: Iterable[int] | None = None) -> HostOptions:
    """Returns the options.  Raises ``InvalidConfig`` for anything but a number of threads and numbers of CPUs."""
    if threads is not None:
        threads = whole("threads", threads, 1, MOST_THREADS)
    return HostOptions(threads, None if affinity is None else _cpus(affinity))


def _cpus(affinity: Iterable[int]) -> frozenset[int]:
    try:
        cpus = () if isinstance(affinity, str | bytes) else tuple(map(whole_number, affinity))
    except TypeError:  # no iterable, or an array without axes
        cpus = ()
    numbers = frozenset(cpu for cpu in cpus if cpu is not None and 0 <= cpu < _MOST_CPUS)
    if not numbers or not numbers.issuperset(cpus):
        raise InvalidConfig(
            f"affinity={shown(affinity)} is no set of numbers of CPUs", fix="pass a set such as {0, 1}."
        )
    return numbers
