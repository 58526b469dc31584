"""Run the command line as its user does: in a process of its own, with or without a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

ROOT = Path(__file__).parents[2]
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line that it told on stderr."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]

    @property
    def response(self) -> dict[str, Any]:
        """The one line of JSON that it printed on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        response: dict[str, Any] = orjson.loads(lines[0])
        return response


class CommandLine:
    """`grundlag-bus` with a home directory of its own and none of our environment."""

    def __init__(self, home: Path, **variables: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRUNDLAG_", "XDG_"))}
        self.environment: Mapping[str, str] = {
            **kept,
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error",
            "COLUMNS": "100",
            **variables,
        }
        self.directory = home

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "grundlag_bus", *arguments]

    def run(self, *arguments: str, given: str | None = None, within: float = 60.0) -> Ended:
        """Run a command without a terminal; given: what it reads from stdin."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            env=self.environment,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def start(self, *arguments: str) -> Iterator[Started]:
        """Start a command without a terminal; it is killed at the end if it still runs."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_signals,  # noqa: PLW1509  system calls
        )
        try:
            yield Started(process)
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def on_terminal(self, *arguments: str) -> Iterator[Terminal]:
        """Start a command whose stdin and stderr are a terminal, and whose stdout is a pipe."""
        with Terminal(self.command(*arguments), self.directory, self.environment) as terminal:
            yield terminal


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen[str]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Read the JSON lines of its log up to the one with this event, and return that."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            entry: dict[str, Any] = orjson.loads(line)
            if entry["event"] == event:
                return entry
        raise AssertionError(f"It ended with {self.process.wait()} before it logged {event!r}.")

    def end(self, within: float = 30.0) -> Ended:
        """Wait for its end."""
        out, err = self.process.communicate(timeout=within)
        return Ended(self.process.returncode, out, err)


def _heed_signals() -> None:
    """Take back what `&` and `nohup` tell those that they start, and they those that they start."""
    for which in (signal.SIGINT, signal.SIGHUP):
        signal.signal(which, signal.SIG_DFL)


def _as_on_a_terminal(theirs: int) -> None:
    """Make it the controlling terminal, so that Ctrl-C is a signal."""
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    _heed_signals()


class Terminal:
    """The other side of a terminal: what is shown on it, and a keyboard."""

    def __init__(self, command: list[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self._read_up_to = 0
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env={**environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: _as_on_a_terminal(theirs),  # noqa: PLW1509  system calls
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._ours)

    def expect(self, text: str, within: float = 30.0) -> None:
        """Wait until the text is shown, below what was expected before."""
        end = time.monotonic() + within
        while text not in self.shown[self._read_up_to :]:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown; on the terminal:\n{self.shown}")
        self._read_up_to = self.shown.index(text, self._read_up_to) + len(text)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def answer(self, line: str) -> None:
        """Wait for the prompt and type a line."""
        self.expect("> ")
        self.type(f"{line}\n")

    def end(self, within: float = 30.0) -> Ended:
        """Wait for its end."""
        until = time.monotonic() + within
        while self._read(until - time.monotonic()):
            pass
        out, _ = self.process.communicate(timeout=within)
        return Ended(self.process.returncode, out.decode(), self.shown)

    def _read(self, within: float) -> bool:
        """Read what is shown next; False when nothing comes any more."""
        ready, _, _ = select.select([self._ours], [], [], max(within, 0))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other side is closed
            return False
        self.shown += _COLOURS.sub("", data.decode()).replace("\r\n", "\n")
        return bool(data)
