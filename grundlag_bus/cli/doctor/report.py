"""What the doctor found: one line each, with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rich.text import Text

from grundlag_bus.cli.exits import printable
from grundlag_bus.cli.output import console

Status = Literal["ok", "warn", "fail", "skip"]
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


@dataclass(frozen=True, slots=True)
class Finding:
    """check: what was looked at; remedy: what to do, where that is anything."""

    status: Status
    check: str
    found: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"status": self.status, "check": self.check, "found": self.found}
        return told if self.remedy is None else {**told, "remedy": self.remedy}


def fails(findings: list[Finding]) -> bool:
    return any(finding.status == "fail" for finding in findings)


def print_finding(finding: Finding) -> None:
    """Print a line, and one below it with what to do."""
    out = console()
    line = Text(f"{finding.status:<5}", style=_STYLES[finding.status])
    line.append(f"{finding.check}: {printable(finding.found)}", style="default")
    out.print(line, soft_wrap=True)
    if finding.remedy is not None:
        out.print(Text(f"     -> {printable(finding.remedy)}"), soft_wrap=True)
