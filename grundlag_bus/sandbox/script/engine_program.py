"""The engine's program, started through what bounds it from outside, as far as this machine has it.

- `setpriv --pdeathsig KILL`: it dies with the thread that started it, so with its host;
- `prlimit`: memory, processor time, no core file, no file written;
- `unshare -rn`: no network; `setsid`: no terminal, since Ctrl-C is for the host to answer;
- `env -i`: nothing of the host's environment, which may hold passwords.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_monty._binary import find_monty_binary

from grundlag_bus.sandbox.script.limits import MIB

if TYPE_CHECKING:
    from grundlag_bus.sandbox.script.limits import Limits

_WRITING = threading.Lock()


def launcher(limits: Limits) -> Path:
    """Return a program that runs the engine within the limits; the same for the same limits in this process."""
    with _WRITING:  # a file that somebody writes cannot be executed
        path = _launcher(os.getpid(), limits.memory, ceil(limits.time))
        if not path.exists():
            _launcher.cache_clear()
            path = _launcher(os.getpid(), limits.memory, ceil(limits.time))
        return path


@functools.cache
def _launcher(_pid: int, memory: int, seconds: int) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="grundlag-script-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    bounds = [f"--data={memory + 56 * MIB}", f"--as={memory + 512 * MIB}", f"--cpu={seconds + 5}"]
    chain = [*_chain(*bounds, "--core=0", "--fsize=0"), find_monty_binary()]
    path = directory / "engine"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(chain)} "$@" 2>/dev/null\n', encoding="utf-8")
    path.chmod(0o500)
    return path


def _chain(*bounds: str) -> list[str]:
    """List the commands that there are and that work here, each of which runs what follows it.

    What gives a process other rights forgets with which parent it dies, so that this comes last.
    """
    wanted = (
        ["env", "-i"],
        ["setsid"],
        ["unshare", "-rn"],
        ["prlimit", *bounds],
        ["setpriv", "--no-new-privs", "--pdeathsig", "KILL"],
    )
    return [part for command in wanted for part in _working(tuple(command))]


@functools.cache
def _working(command: tuple[str, ...]) -> tuple[str, ...]:
    program, rest = shutil.which(command[0]), shutil.which("true")
    if program is None or rest is None:
        return ()
    whole = (program, *command[1:])
    try:
        ended = subprocess.run([*whole, rest], capture_output=True, timeout=10, check=False)  # noqa: S603  our own words
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return whole if ended.returncode == 0 else ()
