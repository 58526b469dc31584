"""Show which mistakes the chaos suite notices: `python -m ops.chaos.mutants [NAME...]`.

Each mutant is made in a copy of the tree, and the suite runs there. It is one of this folder or of tests/mutants.
Before that the suite runs without any mistake: what it finds broken then too would say nothing of a mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.patch import read_patch

if TYPE_CHECKING:
    from tests.mutants.patch import Mutant

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
USUAL = (
    "acked-before-the-reply",
    "publish-not-confirmed",
    "reply-without-confirm",
    "no-adoption",
    "no-lone-run",
    "no-watch-copy",
)
_SAID = {0: "not noticed", 1: "noticed"}
_BROKEN = re.compile(r"^BROKEN +(.*)$", re.MULTILINE)
_TOLD = 3


def main() -> int:
    known = {path.stem: path for folder in (ROOT / "tests/mutants", FOLDER) for path in sorted(folder.glob("*.patch"))}
    parser = argparse.ArgumentParser(prog="python -m ops.chaos.mutants", description="Show what chaos notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a mutant; without one: {', '.join(USUAL)}")
    parser.add_argument("--all", action="store_true", help="every mutant, those of tests/mutants too")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each is tried")
    parser.add_argument("--seed", type=int, default=1, help="which calls and faults each is tried with")
    options = parser.parse_args()
    names = list(known) if options.all else options.names or USUAL
    if unknown := set(names) - set(known):
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    arguments = ["--seconds", str(options.seconds), "--seed", str(options.seed)]
    said, told = _try(None, arguments)
    if said != _SAID[0]:
        print("Without any mistake the suite finds something broken too:", *told, sep="\n", flush=True)
        return 1
    survived = 0
    for name in names:
        mutant = read_patch(known[name])
        said, told = _try(mutant, arguments)
        survived += said != _SAID[1]
        print(f"{said:12} {name:40} {mutant.mistake}", flush=True)
        for line in told:
            print(f"             {line[:160]}", flush=True)
    return 1 if survived else 0


def _try(mutant: Mutant | None, arguments: list[str]) -> tuple[str, list[str]]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in ("grundlag_bus", "ops"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in mutant.files(copy).items() if mutant is not None else ():
            (copy / file).write_text(text)
        command = [sys.executable, "-m", "ops.chaos", *arguments]
        ran = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, env=_environment(copy))
    broken = _BROKEN.findall(ran.stdout)
    if ran.returncode == 1 and not broken:
        return "broken", (ran.stdout + ran.stderr).splitlines()[-_TOLD:]
    return _SAID.get(ran.returncode, "broken"), broken[:_TOLD]


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}


if __name__ == "__main__":
    sys.exit(main())
