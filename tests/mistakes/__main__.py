"""``python -m tests.mistakes --write`` renews the messages on the pages; without ``--write`` it says which changed."""

from __future__ import annotations

import sys

from .pages import pages, renewed

changed = {page: text for page in pages() if (text := renewed(page)) != page.read_text("utf-8")}
for page, text in changed.items():
    print(f"{page.name} is out of date")
    if "--write" in sys.argv[1:]:
        page.write_text(text, "utf-8")
sys.exit(1 if changed and "--write" not in sys.argv[1:] else 0)
