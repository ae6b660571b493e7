"""Does a test fail for every change of a policy?  ``make mutants``.

mutmut makes the mutants of ``vyre.policies`` and runs the tests of the policies against each (``[tool.mutmut]`` in
pyproject.toml).  This adds what it lacks: shares that must be reached, and survivors that are known, each with the
reason why it may live.  Exit code 1 when a share is missed or an unknown survivor appears; the record is written to
``benchmarks/results/mutants.json`` after a run over everything.

    python -m benchmarks.mutants                    # everything, from nothing
    python -m benchmarks.mutants fusion topology    # these modules again, keeping what other mutants did
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.machine import describe

ROOT: Final = Path(__file__).parents[1]
MUTANTS: Final = ROOT / "mutants"
SOURCE: Final = Path("src")
MUTATED: Final = (
    "vyre/policies",
    "vyre/domain/analysis",
    "vyre/adapters/cpu/decisions",
    "vyre/adapters/cuda/decisions",
    "vyre/adapters/caching/cost_eviction.py",
    "vyre/app/sequences/plan_cache.py",
    "vyre/app/shape_predictor.py",
)
"""Folders and files whose mutants are made; ``[tool.mutmut]`` says the same.  Their modules have unique names, but for
those that hold what a decision of their name remembers."""
SURVIVORS: Final = ROOT / "tests/data/mutation_survivors.toml"
RECORD: Final = ROOT / "benchmarks/results/mutants.json"

REQUIRED: Final = 90.0
"""Least share of mutants killed over all policies, in percent."""
REQUIRED_OF: Final = dict.fromkeys(
    (
        "bindless",
        "cache_eviction_heat",
        "command_reuse",
        "dispatch_policy",
        "param_inlining",
        "persistent_kernel",
    ),
    95.0,
)
"""And in single modules."""

SURVIVED: Final = frozenset({0, 5, 33})
"""Exit codes of a mutant that no test noticed: all passed, none was selected, none reaches the function."""
KILLED: Final = frozenset({1, 3})
"""A test failed, or the change broke pytest itself."""
TIMED_OUT: Final = frozenset({-24, 24, 36, 152, 255})
"""Killed as well: a loop that no longer ends."""


class Mutant(NamedTuple):
    """``was`` and ``becomes`` are the lines that differ, without indentation."""

    module: str
    function: str
    was: str
    becomes: str


class Tally(NamedTuple):
    """``timeouts``: of the killed, those whose tests did not end in time."""

    mutants: int
    survivors: tuple[Mutant, ...]
    timeouts: int

    def joined(self, other: Tally | None) -> Tally:
        """Returns the counts of two modules of one name together."""
        if other is None:
            return self
        return Tally(self.mutants + other.mutants, (*self.survivors, *other.survivors), self.timeouts + other.timeouts)

    @property
    def killed(self) -> int:
        return self.mutants - len(self.survivors)

    @property
    def share(self) -> float:
        return 100 * self.killed / self.mutants


def run(modules: Iterable[str], jobs: int) -> None:
    """Have mutmut make and test the mutants of ``modules``, or of all policies."""
    names = [f"*.{module}.*" for module in modules]
    if not names:
        shutil.rmtree(MUTANTS, ignore_errors=True)
    mutmut = Path(sys.executable).with_name("mutmut")
    command = [str(mutmut), "run", "--max-children", str(jobs), *names]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"VYRE_MUTANTS": "1"})


def results(modules: Collection[str]) -> dict[str, Tally]:
    """Returns the counts of killed and surviving mutants of ``modules``, or of all policies."""
    found = {}
    for path in sorted((MUTANTS / SOURCE).rglob("*.py.meta")):
        module = path.name.removesuffix(".py.meta")
        codes: Mapping[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
        if not codes or (modules and module not in modules):
            continue
        unclear = Counter(code for code in codes.values() if code not in SURVIVED | KILLED | TIMED_OUT)
        if unclear:
            raise SystemExit(f"{module} has mutants that were not judged; their exit codes: {dict(unclear)}")
        alive = [name.rpartition(".")[2] for name, code in codes.items() if code in SURVIVED]
        timeouts = sum(code in TIMED_OUT for code in codes.values())
        tally = Tally(len(codes), tuple(differences(module, path.with_suffix(""), alive)), timeouts)
        found[module] = tally.joined(found.get(module))
    return found


def differences(module: str, path: Path, names: Iterable[str]) -> Iterator[Mutant]:
    """Yields the change that each named mutant in the file at ``path`` makes."""
    text = path.read_text()
    lines = text.splitlines()
    functions = {
        node.name: [lines[node.lineno - 1].replace(node.name, ""), *lines[node.lineno : node.end_lineno]]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }
    for name in names:
        mangled = name.rpartition("__mutmut_")[0]
        delta = [d for d in difflib.ndiff(functions[f"{mangled}__mutmut_orig"], functions[name]) if d[0] in "-+"]
        was, becomes = (" ".join(d[2:].strip() for d in delta if d[0] == sign) for sign in "-+")
        yield Mutant(module, mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", "."), was, becomes)


def known_survivors() -> dict[Mutant, str]:
    """The listed survivors and why each may live."""
    listed = tomllib.loads(SURVIVORS.read_text())
    return {Mutant(*mutant): group["why"] for group in listed.get("group", ()) for mutant in group["mutants"]}


def judge(found: Mapping[str, Tally], known: Mapping[Mutant, str]) -> list[str]:
    """Returns a line for each requirement that the results miss."""
    wrong = [
        f"{module}: {found[module].share:.1f} % killed, {least} % are required"
        for module, least in REQUIRED_OF.items()
        if module in found and found[module].share < least
    ]
    total = total_of(found)
    if total.share < REQUIRED:
        wrong.append(f"all: {total.share:.1f} % killed, {REQUIRED} % are required")
    wrong += [
        f"unlisted survivor in {m.module}, {m.function}:\n    - {m.was}\n    + {m.becomes}"
        for m in total.survivors
        if m not in known
    ]
    return wrong


def total_of(found: Mapping[str, Tally]) -> Tally:
    return Tally(
        sum(t.mutants for t in found.values()),
        tuple(m for t in found.values() for m in t.survivors),
        sum(t.timeouts for t in found.values()),
    )


def record(found: Mapping[str, Tally]) -> None:
    """Write the figures of a run over everything."""
    total = total_of(found)
    figures = figures_of(total) | {
        "modules": {module: figures_of(t) for module, t in found.items()},
        "machine": describe(),
    }
    RECORD.write_text(json.dumps(figures, indent=1) + "\n")


def figures_of(tally: Tally) -> dict[str, object]:
    return {
        "mutants": tally.mutants,
        "killed": tally.killed,
        "of_which_timeouts": tally.timeouts,
        "killed_percent": round(tally.share, 2),
    }


def left_out() -> list[str]:
    """Property tests of policies that mutmut is not told of."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["pytest_add_cli_args_test_selection"]
    return [
        path.name
        for path in sorted((ROOT / "tests/property").glob("test_policy_*.py"))
        if str(path.relative_to(ROOT)) not in told
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="of vyre.policies; default: all, from nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; default: one a core")
    parser.add_argument("--report", action="store_true", help="run nothing, judge what the last run left")
    arguments = parser.parse_args()
    if missing := left_out():
        parser.error(f"add to [tool.mutmut] in pyproject.toml: {', '.join(missing)}")
    if not arguments.report:
        run(arguments.modules, arguments.jobs)
    found = results(arguments.modules)
    for module, t in found.items():
        print(f"{module:32}{t.killed:6} of {t.mutants:5} killed {t.share:7.2f} %")
    total = total_of(found)
    print(f"{'all':32}{total.killed:6} of {total.mutants:5} killed {total.share:7.2f} %")
    if not arguments.modules:
        record(found)
    known = known_survivors()
    for m in sorted(known.keys() - set(total.survivors)):
        if m.module in found:
            print(f"no longer a survivor: {m.module}, {m.function}: {m.becomes}")
    wrong = judge(found, known)
    print("\n".join(wrong) if wrong else "every survivor is known")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
