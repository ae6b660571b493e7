"""``python -m tests.size_budget``: the lines of each package of ``src/vyre`` against ``tests/data/size-budget.toml``.

A module counts for the innermost folder that has a budget.  ``--lower`` takes budgets down to the present sizes,
rounded up to hundreds; one is raised by hand.  Exit code: 0 if every size holds, 1 otherwise.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final = ROOT / "tests" / "data" / "size-budget.toml"
SUFFIXES: Final = (".py", ".pyi", ".vyre")
_STEP: Final = 100
_FIX: Final = f"raise the budget in {BUDGET.relative_to(ROOT)} and say in the commit what users get for it"


def problems(package: Path, budget: Mapping[str, int]) -> Iterator[str]:
    """Yields a message for each folder of ``package`` above its budget or without one, and for the total."""
    for folder, lines in sizes(package, budget).items():
        if folder not in budget:
            yield f"src/vyre/{folder} has {lines} lines and no budget. Fix: {_FIX.replace('raise', 'add')}."
        elif lines > budget[folder]:
            yield (
                f"src/vyre/{folder} has {lines} lines, {lines - budget[folder]} above its budget of {budget[folder]}. "
                f"Fix: take lines out, or {_FIX}."
            )


def sizes(package: Path, budget: Mapping[str, int]) -> Counter[str]:
    """Returns the lines of each folder, without those of folders in it that have budgets; ``total`` is their sum."""
    lines: Counter[str] = Counter()
    for path in sorted(package.rglob("*")):
        if path.suffix in SUFFIXES:
            *folders, root = [folder.as_posix() for folder in path.relative_to(package).parents]
            home = next((folder for folder in folders if folder in budget), folders[-1] if folders else root)
            lines[home] += len(path.read_text(encoding="utf-8").splitlines())
    lines["total"] = lines.total()
    return lines


def lowered(text: str, lines: Mapping[str, int]) -> str:
    """Returns the text of a budget with every number that is too large taken down."""

    def line(match: re.Match[str]) -> str:
        needed = -(-lines.get(match[2], 0) // _STEP) * _STEP
        return f"{match[1]}{min(int(match[3]), needed)}"

    return re.sub(r'^("?([^"\s]+)"? = )(\d+)$', line, text, flags=re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Checks the sizes, or lowers the budgets; returns the exit code."""
    text, package = BUDGET.read_text(encoding="utf-8"), ROOT / "src" / "vyre"
    budget = tomllib.loads(text)
    if list(arguments) == ["--lower"]:
        BUDGET.write_text(lowered(text, sizes(package, budget)), encoding="utf-8")
        return 0
    found = list(problems(package, budget))
    print("\n".join(found), end="\n" if found else "")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
