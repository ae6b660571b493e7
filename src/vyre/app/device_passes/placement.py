"""Places the passes of a session: by what the session asks for, and by a decision about each program."""

from __future__ import annotations

from typing import Final

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.shown import shown
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.optimizing.pass_placement import PassPlacement, PlacementInputs, place_passes
from vyre.policies.optimizing.program_passes import EngineKind

HOST: Final = "host"
DEVICE: Final = "device"


def check_place(optimizer: str) -> None:
    """Raises ``InvalidConfig`` for what is no place of the optimizer."""
    expect("optimizer", optimizer, str, "a text")
    if optimizer not in (HOST, DEVICE):
        raise InvalidConfig(f"optimizer={shown(optimizer)}", fix=f'write optimizer="{HOST}" or "{DEVICE}".')


def placement(program: Program, engine: EngineKind, sink: DecisionSink | None) -> PassPlacement:
    """Decides which passes run on the device for a program of a session that asks for it."""
    return decide(sink, place_passes, PlacementInputs(engine=engine, nodes=node_facts(program).nodes))
