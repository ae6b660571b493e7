"""``refuse_unsupported``: what a config asks for and a backend does not offer."""

from __future__ import annotations

from typing import Any

import pytest

from vyre.domain.dispatch import DispatchConfig, PersistentThreadMode, SpeculationMode, refuse_unsupported
from vyre.domain.errors import UnsupportedFeature

OPTIONAL: dict[str, tuple[Any, str]] = {
    "step_budget": (9, "step_budget"),
    "race_check": (True, "race_check"),
    "chunk_workgroups": (2, "chunk_workgroups"),
    "timeout_s": (1.0, "timeout_s"),
    "profile": ("fast", "profile 'fast'"),
    "cooperative": (True, "cooperative launches"),
    "speculation": (SpeculationMode.FORCE, "speculation"),
    "persistent_thread": (PersistentThreadMode.FORCE, "persistent threads"),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_field_is_refused_unless_it_is_honoured(name: str) -> None:
    value, feature = OPTIONAL[name]
    config = DispatchConfig(**{name: value})
    with pytest.raises(UnsupportedFeature) as caught:
        refuse_unsupported(config, "toy", OPTIONAL.keys() - {name}, {name: "leave it out."})
    assert (caught.value.feature, caught.value.fix) == (feature, "leave it out.")
    refuse_unsupported(config, "toy", {name})


def test_what_every_backend_honours_is_never_refused() -> None:
    modes: dict[str, Any] = {"speculation": SpeculationMode.AUTO, "persistent_thread": PersistentThreadMode.DISABLE}
    refuse_unsupported(DispatchConfig(), "toy", ())
    refuse_unsupported(DispatchConfig(grid=2, label="x", ulp_budget=2, fixpoint_iterations=3, **modes), "toy", ())
