"""Everything in vyre that reads what somebody else may have written: valid inputs of each reader, and how they change.

A reader takes any bytes.  It returns, or refuses them by an error that its documentation names; anything else is a
defect, as is more time or memory than ``reader_fuzzing`` allows.
"""

from __future__ import annotations

from support.readers import documents, machine_code, options
from support.readers.registry import READERS, Reader, chosen

__all__ = ["READERS", "Reader", "chosen", "documents", "machine_code", "options"]
