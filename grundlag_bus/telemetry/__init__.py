"""What happens to calls, as events, and who listens to them."""

from grundlag_bus.telemetry.events import (
    CallBuried,
    CallEnded,
    CallSentOn,
    CallStarted,
    EnvelopeRefused,
    Event,
    LedgerAnswered,
    LedgerAway,
    LedgerNoted,
    LoopBlocked,
    LoopTurned,
    ReplyLate,
)
from grundlag_bus.telemetry.hook import Hook, ignore
from grundlag_bus.telemetry.report import Report

__all__ = [
    "CallBuried",
    "CallEnded",
    "CallSentOn",
    "CallStarted",
    "EnvelopeRefused",
    "Event",
    "Hook",
    "LedgerAnswered",
    "LedgerAway",
    "LedgerNoted",
    "LoopBlocked",
    "LoopTurned",
    "ReplyLate",
    "Report",
    "ignore",
]
