"""The command ``python -m vyre.gallery [NAME ...]``: runs examples on the selected backend and checks every answer."""

from __future__ import annotations

import sys
from time import perf_counter

import vyre
from vyre.adapters.terminal import command, complain, put
from vyre.domain.printable import one_line
from vyre.gallery.example import mismatches
from vyre.gallery.registry import examples


@command
def main(names: list[str]) -> int:
    """Runs the named examples, or all of them, and prints a verdict for each.

    Returns 0 if every answer is right, 1 if one is wrong, and 2 for an unknown name.
    """
    known = examples()
    unknown = [name for name in names if name not in known]
    if unknown:
        complain(f"no example named {one_line(', '.join(unknown))}. Fix: choose from {', '.join(known)}")
        return 2
    wrong = 0
    with vyre.open() as session:
        put(str(session.explain()))
        for name in names or known:
            example = known[name]
            case, program = example.case(), example.program()
            started = perf_counter()
            differences = mismatches(case, example.run(session, program, case))
            elapsed = perf_counter() - started
            verdict = "; ".join(differences) or f"equals {example.checked_by}"
            put(f"{name:<16} {example.title:<50} {elapsed * 1e3:8.1f} ms  {verdict}")
            wrong += bool(differences)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
