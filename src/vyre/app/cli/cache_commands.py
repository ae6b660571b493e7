"""The group ``vyre cache`` with all of its commands."""

from vyre.app.cli.cache import cache
from vyre.app.cli.cache_invalidate import invalidate
from vyre.app.cli.cache_key import key

__all__ = ["cache"]

cache.command()(invalidate)
cache.command()(key)
