"""How ``driver.RealDriver`` calls a function of the bindings: with checks before, and typed errors after.

``init`` loads the bindings; this file keeps them, the process that loaded them and the position in the driver's log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from vyre.adapters.cuda.codes import Result, name_of
from vyre.adapters.cuda.seam import CudaCallError

LOG_BYTES: Final = 16_384
"""The number of bytes of a log that are read."""


class DriverCalls:
    """The bindings, once they are loaded, and checked calls of their functions."""

    def __init__(self) -> None:
        self._api: Any = None
        self._pid = 0
        self._log_start: Any = None

    def _call(self, name: str, *arguments: Any, **shown: object) -> Any:
        """Calls a function and returns its results without the status: None, one value, or a tuple.

        ``shown`` holds the arguments as an error reports them.
        """
        self._check(name)
        try:
            status, *results = getattr(self._api, name)(*arguments)
        except (AttributeError, RuntimeError) as error:  # a function that this driver or these bindings lack
            raise CudaCallError(Result.NOT_SUPPORTED, name_of(Result.NOT_SUPPORTED), name, shown, str(error)) from None
        except OverflowError as error:
            self._fail(name, Result.INVALID_VALUE, shown, str(error))
        except ValueError as error:
            self._fail_unlisted(name, error, shown)
        if status:
            self._fail(name, int(status), shown)
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    @contextmanager
    def _within_range(self, name: str, **shown: object) -> Iterator[None]:
        """Reports a number that its field cannot hold, such as a negative size, as an invalid value."""
        try:
            yield
        except OverflowError as error:
            self._fail(name, Result.INVALID_VALUE, shown, str(error))

    def _check(self, name: str) -> None:
        if self._api is None:
            self._refuse(Result.NOT_INITIALIZED, name, "init() was not called")
        if self._pid != os.getpid():
            self._refuse(Result.NOT_INITIALIZED, name, "the process was forked after init()")
        if sys.is_finalizing():
            self._refuse(Result.DEINITIALIZED, name, "the interpreter is shutting down")

    def _refuse(self, code: Result, name: str, why: str) -> NoReturn:
        raise CudaCallError(code, name_of(code), name, {}, why)

    def _fail(self, name: str, code: int, shown: dict[str, object], log: str = "") -> NoReturn:
        raise CudaCallError(code, name_of(code), name, shown, log or self._read_log())

    def _fail_unlisted(self, name: str, error: ValueError, shown: dict[str, object]) -> NoReturn:
        """Reports a result that these bindings do not know: they raise ``ValueError`` instead of returning it."""
        self._fail(name, Result.UNKNOWN, shown, str(error))

    def _read_log(self) -> str:
        """Returns the text that the driver logged since the last failure; empty on drivers that keep no log."""
        if self._log_start is None:
            return ""
        buffer = bytearray(LOG_BYTES)
        try:
            status, iterator, size = self._api.cuLogsDumpToMemory(self._log_start, buffer, LOG_BYTES, 0)
        except Exception:  # the failure that is being reported matters more
            return ""
        if status:
            return ""
        self._log_start = iterator
        return bytes(buffer[: int(size)]).decode("utf-8", "replace").strip("\0\n ")

    def _load(self) -> None:
        if self._pid and self._pid != os.getpid():
            self._refuse(Result.NOT_INITIALIZED, "cuInit", "the process was forked after init()")
        try:
            from cuda.bindings import driver

            driver.cuInit(0)  # resolves the library: a missing one is found here
        except Exception as error:
            code = Result.NO_DEVICE
            raise CudaCallError(
                code, name_of(code), "cuInit", {}, f"the CUDA driver library cannot be loaded: {_first_line(error)}"
            ) from error
        self._api, self._pid = driver, os.getpid()


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
