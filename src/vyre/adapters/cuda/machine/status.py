"""The exception by which the parts of the emulated driver report a failed call or a failed operation on a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.adapters.cuda.seam import KernelFinding


class Status(Exception):
    """A driver code other than success, before the driver turns it into a ``CudaCallError``.

    ``log`` explains it: a real driver's log is empty for most codes, the machine's never is.  ``finding`` describes the
    kernel, if one was at fault.
    """

    def __init__(self, code: int, log: str, finding: KernelFinding | None = None) -> None:
        super().__init__(code, log)
        self.code = code
        self.log = log
        self.finding: KernelFinding | None = finding

    def again(self) -> Status:
        """Returns a copy, to be raised once more."""
        return Status(self.code, self.log, self.finding)
