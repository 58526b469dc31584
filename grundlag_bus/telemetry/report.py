"""What a probe is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """Whether all is well. reasons: what is not, a few words each."""

    ok: bool
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, reasons: tuple[str, ...]) -> Report:
        """Report what is wrong: all is well where nothing is."""
        return cls(not reasons, reasons)
