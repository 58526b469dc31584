"""The engine processes that this process has started, as the system sees them."""

from __future__ import annotations

import os
from pathlib import Path


def engines(parent: int | None = None) -> list[int]:
    """List them, of this process or of another one."""
    parent = os.getpid() if parent is None else parent
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            command = (status.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields["PPid"]) == parent and b"monty" in command and fields["State"].split()[0] != "Z":
            found.append(int(status.parent.name))
    return found


def resident(process: int) -> int:
    """Return the bytes of memory that a process had at most so far; 0 when it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
