"""How the parts of the emulated driver say that a call, or an operation on a stream, failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.adapters.cuda.seam import KernelFinding


class Status(Exception):
    """A driver code other than success, before the driver dresses it as a ``CudaCallError``.

    ``log`` explains it: the driver's own logs are empty for most codes, the machine always knows why.
    ``finding``: about the kernel, if one was at fault.
    """

    def __init__(self, code: int, log: str, finding: KernelFinding | None = None) -> None:
        super().__init__(code, log)
        self.code = code
        self.log = log
        self.finding: KernelFinding | None = finding

    def again(self) -> Status:
        """The same, to be raised once more."""
        return Status(self.code, self.log, self.finding)
