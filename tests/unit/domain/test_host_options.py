"""The number of threads and the CPUs that a caller asks for."""

from __future__ import annotations

from typing import Any

import pytest

import vyre
from support.small_programs import saxpy_catalog
from vyre.domain.errors import InvalidConfig, InvalidField
from vyre.domain.host_options import MOST_THREADS, NO_HOST_OPTIONS, HostOptions, host_options


def test_options_are_kept() -> None:
    assert host_options() == NO_HOST_OPTIONS and not NO_HOST_OPTIONS.given
    assert host_options(1) == HostOptions(1) and HostOptions(1).given
    assert host_options(MOST_THREADS, range(2)) == HostOptions(MOST_THREADS, frozenset({0, 1}))
    assert HostOptions(None, frozenset({5})).given


@pytest.mark.parametrize("threads", [0, -1, MOST_THREADS + 1, True, 1.0, "2"])
def test_other_numbers_of_threads_are_refused(threads: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"is not an int in 1\.\.1023\. Fix: use 1\.\.1023"):
        vyre.open(catalog=saxpy_catalog(), threads=threads)
    with pytest.raises(InvalidField, match="threads"):
        HostOptions(threads)


@pytest.mark.parametrize("affinity", [(), "0", b"0", 3, [-1], [True], [1.0], [1 << 16], ["0"]])
def test_other_sets_of_processors_are_refused(affinity: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"is no set of numbers of CPUs\. Fix: pass a set such as \{0, 1\}\."):
        vyre.open(catalog=saxpy_catalog(), affinity=affinity)
