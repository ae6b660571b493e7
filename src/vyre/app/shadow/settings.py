"""``Shadow``: what ``vyre.open(shadow=...)`` takes."""

from __future__ import annotations

from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated

from vyre.domain.record import U64, Count, FloatRange, IntRange, record
from vyre.policies.evidence.shadow import Rate, ShadowLimits


@record
class Shadow:
    """Settings of shadow execution: sampled dispatches are run again on another backend, and the bytes compared.

    ``rate``: the chance of a dispatch to be sampled, above 0 and at most 1.  ``budget``: the share of one core that the
    shadow may take, with the copies that it makes; None: no limit.  ``seed``: draws the samples.  ``on``: the backend
    that runs them again; None: the processor of this machine if the session runs elsewhere, else the reference.
    ``directory``: where the evidence of differences is written; None: a new directory among the temporary files.
    ``most_waiting``: samples that wait to be run at most.  ``most_bytes``: bytes of a sample that are copied at most.
    ``timeout_s``: seconds after which a run of the shadow is given up, and which closing the session waits for at most.
    """

    rate: Rate = 0.01
    budget: Annotated[float, FloatRange(0.0, 1.0, above=True)] | None = 0.02
    _: KW_ONLY
    seed: U64 = 0
    on: str | None = None
    directory: Path | str | None = None
    most_waiting: Annotated[int, IntRange(1, 2**20)] = 8
    most_bytes: Count = 64 << 20
    timeout_s: Annotated[float, FloatRange(0.0, 86_400.0, above=True)] = 10.0

    @property
    def limits(self) -> ShadowLimits:
        """The limits within which samples are admitted."""
        return ShadowLimits(self.budget, self.most_waiting, self.most_bytes)
