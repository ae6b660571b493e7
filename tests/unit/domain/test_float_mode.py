"""Functions in the default floating-point mode: every other mode is noticed, left for the call, and given back."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.reference.float_modes import MODES, PARTS, SETTABLE, UNMASKED, control, float_mode
from vyre.domain.float_mode import FACTORS, PROBE, PRODUCT, in_default_mode, public_in_default_mode

pytestmark = pytest.mark.skipif(not SETTABLE, reason="the modes of this platform's floats are not known")

USUAL: Final = control() if SETTABLE else 0
inside = in_default_mode(control)


@in_default_mode
def failing(read: Callable[[], int]) -> None:
    raise ValueError(read())


class Base:
    """A class whose method another one inherits."""

    def inherited(self) -> int:
        return control()


@public_in_default_mode("other")
class Thing(Base):
    """A class with a member of every kind."""

    def own(self) -> int:
        return control()

    def other(self) -> int:
        return control()

    def _private(self) -> int:
        return control()


class Derived(Thing):
    """A class without members of its own."""


def test_the_probe_is_right_in_the_default_mode() -> None:
    assert PROBE * FACTORS == PRODUCT


@pytest.mark.parametrize("mode", [*MODES, *PARTS])
def test_the_probe_notices_every_other_mode(mode: str) -> None:
    with float_mode(mode):
        assert PROBE * FACTORS != PRODUCT


@pytest.mark.parametrize("mode", [*MODES, *PARTS, UNMASKED])
def test_a_call_leaves_the_mode_and_gives_it_back(mode: str) -> None:
    with float_mode(mode) as ours:
        assert ours != USUAL
        assert (inside(), control()) == (USUAL, ours)
        with pytest.raises(ValueError, match=f"^{USUAL}$"):
            failing(inside)
        assert control() == ours
    assert (inside(), control()) == (USUAL, USUAL)


@pytest.mark.parametrize("mode", MODES)
def test_threads_inherit_the_default_mode_from_a_call(mode: str) -> None:
    found: list[int] = []

    @in_default_mode
    def start() -> Thread:
        thread = Thread(target=lambda: found.append(control()))
        thread.start()
        return thread

    with float_mode(mode):
        start().join(LIMIT_S)
        thread = Thread(target=lambda: found.append(control()))
        thread.start()
        thread.join(LIMIT_S)
    assert found[0] == USUAL != found[1]


@pytest.mark.parametrize("kind", [Thing, Derived])
def test_the_public_methods_of_a_class_run_in_the_default_mode(kind: type[Thing]) -> None:
    with float_mode(MODES[0]) as ours:
        thing = kind()
        assert (thing.own(), thing.inherited()) == (USUAL, USUAL)
        assert (thing.other(), thing._private(), Base().inherited(), control()) == (ours,) * 4
