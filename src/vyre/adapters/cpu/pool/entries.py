"""The runtime's functions as ``ctypes`` calls, made once from their addresses.

Every call releases the interpreter lock, except those which publish an entry of a ring: they take less time than that,
and no other thread of Python publishes one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_int32, c_int64
from typing import Any, Final

from vyre.domain.errors import BackendError


class Entries:
    """The entry points of a loaded runtime.

    ``loaded`` owns the code and is kept alive.  A call that takes a job takes the address of its record.
    """

    def __init__(self, addresses: Mapping[str, int], loaded: object = None) -> None:
        def entry(name: str, result: Any, *types: Any, call: Callable[..., Any] = CFUNCTYPE) -> Callable[..., Any]:
            symbol = f"vyre_pool_{name}"
            if symbol not in addresses:
                raise BackendError(
                    f"the code of the runtime lacks `{symbol}`",
                    fix="clear the cache with `vyre cache clear`; it holds code of another version.",
                )
            function: Callable[..., Any] = call(result, *types)(addresses[symbol])
            return function

        self.loaded: Final = loaded
        self.allocate: Final = entry("allocate", c_int64, c_int64)
        self.release: Final = entry("release", None, c_int64)
        self.enter: Final = entry("enter", c_int64, c_int64)
        self.lead: Final = entry("lead", c_int64, c_int64)
        self.submit: Final = entry("submit", c_int64, c_int64, c_int64)
        self.run: Final = entry("run", c_int64, c_int64, c_int64)
        self.wait: Final = entry("wait", c_int64, c_int64, c_int64)
        self.notify: Final = entry("notify", c_int64, c_int64)
        self.halt: Final = entry("halt", None, c_int64, c_int32)
        self.stop: Final = entry("stop", None, c_int64, c_int32)
        self.close_group: Final = entry("close_group", None, c_int64, c_int64, c_int32)
        self.worker: Final = entry("worker", None, c_int64, c_int64)
        self.watch: Final = entry("watch", None, c_int64)
        self.ended: Final = entry("ended", c_int32, c_int64, c_int32, c_int64)
        self.shutdown: Final = entry("shutdown", None, c_int64)
        self.ring_take: Final = entry("ring_take", c_int64, c_int64)
        self.ring_open: Final = entry("ring_open", None, c_int64, c_int64)
        self.ring_submit: Final = entry("ring_submit", None, c_int64, c_int64, call=PYFUNCTYPE)
        self.ring_enter: Final = entry("ring_enter", c_int64, c_int64, call=PYFUNCTYPE)
        self.ring_wait: Final = entry("ring_wait", c_int64, c_int64, c_int64, c_int64, c_int64, c_int64)
        self.ring_stop: Final = entry("ring_stop", None, c_int64, c_int64, c_int32)
        self.ring_close: Final = entry("ring_close", None, c_int64, c_int64)
        self.ring_drop_fd: Final = entry("ring_drop_fd", None, c_int64, c_int32)
