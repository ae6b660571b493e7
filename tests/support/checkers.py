"""mypy and pyright on files, both strict: the lines that each refuses.

basedpyright is pyright with Node.js in its wheel; with the rules of pyright's strict mode it finds the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from support.limits import LIMIT_S

ROOT: Final = Path(__file__).resolve().parents[2]
_FOUND_BY_MYPY: Final = re.compile(r"^(\w+\.py):(\d+): error: ", re.MULTILINE)


def found_by_mypy(*paths: Path) -> set[tuple[str, int]]:
    """Returns the files and the lines of what mypy refuses; without a cache, which other processes may lock."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={os.devnull}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(path.name for path in paths)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=paths[0].parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {(name, int(line)) for name, line in _FOUND_BY_MYPY.findall(done.stdout)}
    assert bool(found) == bool(done.returncode), done.stdout
    return found


def found_by_pyright(folder: Path, *paths: Path) -> set[tuple[str, int]]:
    """Returns the files and the lines of what pyright refuses."""
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    command = shutil.which("basedpyright", path=beside)
    assert command is not None, "basedpyright is not installed. Fix: pip install --group lint"
    config = {
        "typeCheckingMode": "strict",
        "include": [str(path) for path in paths],
        "extraPaths": [str(ROOT / "src")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config), "utf-8")
    done = subprocess.run(
        [command, "--outputjson", "-p", str(folder)],
        env={**os.environ, "PATH": beside},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(paths), done.stdout
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in report["generalDiagnostics"]
        if one["severity"] in ("error", "warning")
    }
