"""Show that tests notice the mistakes of other systems: `python -m tests.mutants [NAME...]`.

Each mutant is made in a copy of the tree, and its tests are run there. At least one has to fail, by what it asserts or
by a time-out; before that all of them have to pass without any mistake.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ops.rabbitmq.roots import BrokerUnavailableError
from tests.mutants.catalogue import ROOT, all_mutants
from tests.mutants.patch import PatchError
from tests.support.broker import DEFAULT_VERSION, obtain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mutants.patch import Mutant

AT_ONCE = 2
TEST_WITHIN = 60
"""Seconds for one test: a mutant that makes it hang is noticed by that."""
_MORE = 120
"""Seconds besides, for a process that does not even end by its own time-out, and for a broker that a test starts."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - (.*))?$", re.MULTILINE)
_TESTS_FAILED, _HUNG = 1, -1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a mutant's tests said. noticed: None where they could not say anything."""

    mutant: Mutant
    noticed: bool | None
    told: str
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Show that tests notice mistakes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant; all of them where none is named")
    names = set(parser.parse_args().names)
    try:
        mutants = [mutant for mutant in all_mutants() if not names or mutant.name in names]
        if unknown := names - {mutant.name for mutant in mutants}:
            parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
        for mutant in mutants:
            mutant.files(ROOT)
        with _broker() as url:
            return _show(mutants, {**os.environ, "GRUNDLAG_TEST_AMQP_URL": url})
    except (PatchError, BrokerUnavailableError) as error:
        print(error, file=sys.stderr)  # noqa: T201  it speaks to a terminal
        return 1


def _show(mutants: Sequence[Mutant], environment: dict[str, str]) -> int:
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    _say(f"{len(tests)} tests without any mistake ...")
    with _copy() as copy:
        told = _run(copy, tests, environment)
    if told.returncode:
        _say(told.stdout)
        return 1
    survivors = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(lambda mutant: _try(mutant, environment), mutants):
            said = {True: "noticed", False: "SURVIVED", None: "BROKEN"}[verdict.noticed]
            survivors += not verdict.noticed
            _say(f"{said:8} {verdict.seconds:5.1f} s  {verdict.mutant.name:45} {verdict.mutant.fault}\n{verdict.told}")
    _say(f"{len(mutants) - survivors} of {len(mutants)} mutants are noticed.")
    return 1 if survivors else 0


def _try(mutant: Mutant, environment: dict[str, str]) -> Verdict:
    began = time.monotonic()
    with _copy() as copy:
        for file, text in mutant.files(copy).items():
            (copy / file).write_text(text)
        ran = _run(copy, ["-x", *mutant.tests], environment)
    noticed: bool | None
    if ran.returncode == _TESTS_FAILED and (failure := _first_failure(ran.stdout)):
        noticed, told = True, "{}\n{}".format(*failure.groups(default=""))
    elif ran.returncode == _HUNG:
        noticed, told = True, f"{' '.join(mutant.tests)}\nnothing ended"
    else:
        noticed, told = False if ran.returncode == 0 else None, ran.stdout
    indented = "".join(f"         {line[:140]}\n" for line in told.splitlines())
    return Verdict(mutant, noticed, indented, time.monotonic() - began)


def _first_failure(told: str) -> re.Match[str] | None:
    """Find the test that failed in pytest's summary, which tells of what went wrong after a test before of the test."""
    found = list(_FAILED.finditer(told))
    return next((each for each in found if each[0].startswith("FAILED")), found[0] if found else None)


def _run(copy: Path, arguments: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the tree. Return code `_HUNG`: they had to be ended."""
    options = ["-q", "--tb=native", "-p", "no:cacheprovider", "-o", f"timeout={TEST_WITHIN}"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    here = {**environment, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    running = subprocess.Popen(command, cwd=copy, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        told, _ = running.communicate(timeout=len(arguments) * TEST_WITHIN + _MORE)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)  # so that it ends a broker that it started
        try:
            told, _ = running.communicate(timeout=_MORE)
        except subprocess.TimeoutExpired:
            running.kill()
            told, _ = running.communicate()
        return subprocess.CompletedProcess(command, _HUNG, told)
    return subprocess.CompletedProcess(command, running.returncode, told)


@contextmanager
def _copy() -> Iterator[Path]:
    """Copy what tests need, so that nothing of the working tree is touched."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in ("grundlag_bus", "ops", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copy)
        yield copy


@contextmanager
def _broker() -> Iterator[str]:
    """Give one broker to all tests that only use one: that of GRUNDLAG_TEST_AMQP_URL, or one of our own."""
    if url := os.environ.get("GRUNDLAG_TEST_AMQP_URL"):
        yield url
        return
    node = obtain(os.environ.get("GRUNDLAG_TEST_RABBITMQ", DEFAULT_VERSION))
    try:
        node.start()
        yield node.url
    finally:
        node.close()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  it speaks to a terminal


if __name__ == "__main__":
    sys.exit(main())
