"""Show what the chaos suite notices: `python -m tests.mutants.chaos [NAME...]`.

Each mutant, of those below and of this folder, is made in a copy of the tree, and the suite is run there with private
servers. The suite looks at calls alone: a mistake that costs no call is none of its own to find.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.mutants.__main__ import copied_tree
from tests.mutants.catalogue import FOLDER, ROOT
from tests.mutants.patch import Mutant, PatchError, read_patch

NAMES = (
    "acked-before-it-is-sent-on",
    "acked-before-the-reply",
    "acked-when-taken",
    "acks-not-flushed",
    "cancellation-only-live",
    "cancelled-and-still-running",
    "cancelled-consumer-taken-up-again",
    "consumer-cancel-unheard",
    "delivered-again-runs-again",
    "failures-buried-nowhere",
    "futures-kept-after-close",
    "last-start-beside-others",
    "mailbox-exclusive",
    "nobody-watches-consumers",
    "publish-not-confirmed",
    "receiver-held-weakly",
    "reconnected-and-deaf",
    "replies-closed-first",
    "requeued-for-ever",
    "ttl-per-message",
)
"""Mutants of the folder above that cost calls."""

_PROMISE = re.compile(r"^BROKEN  ([a-z ]+): ", re.MULTILINE)
_MORE = 600
"""Seconds besides the load: for servers that start, and for calls that end only at their deadline."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.chaos", description="Show what the suite notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant; all that cost calls where none is named")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to call, for each")
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second")
    parser.add_argument("--seed", type=int, default=1, help="decides calls and faults")
    options = parser.parse_args()
    try:
        mutants = [mutant for mutant in all_mutants() if not options.names or mutant.name in options.names]
        for mutant in mutants:
            mutant.files(ROOT)
    except PatchError as error:
        print(error, file=sys.stderr)  # noqa: T201  it speaks to a terminal
        return 1
    survivors = 0
    for mutant in mutants:
        began = time.monotonic()
        promises = _broken(mutant, options)
        survivors += not promises
        said = f"noticed  {', '.join(promises)}" if promises else "SURVIVED"
        print(f"{mutant.name:36} {time.monotonic() - began:4.0f} s  {said}", flush=True)  # noqa: T201  the same
    return 1 if survivors else 0


def all_mutants() -> list[Mutant]:
    """Read every patch that the suite may notice. Raises PatchError."""
    files = [*(FOLDER / f"{name}.patch" for name in NAMES), *sorted(Path(__file__).parent.glob("*.patch"))]
    return [read_patch(file) for file in files]


def _broken(mutant: Mutant, options: argparse.Namespace) -> list[str]:
    """Run the suite with a mistake, and name the promises that it finds broken."""
    with copied_tree() as copy:
        for file, text in mutant.files(copy).items():
            (copy / file).write_text(text)
        load = (f"--seconds={options.seconds}", f"--rate={options.rate}", f"--seed={options.seed}")
        ran = subprocess.run(
            [sys.executable, "-m", "ops.chaos", *load],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=options.seconds + _MORE,
            check=False,
        )
    found = sorted(set(_PROMISE.findall(ran.stdout)))
    return found or ([f"it ended: {ran.stderr.strip().splitlines()[-1]}"] if ran.returncode else [])


if __name__ == "__main__":
    sys.exit(main())
