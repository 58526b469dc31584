"""The ledger: what is recorded of calls, so that a finished one is never run again and two workers never end one.

A call's way with a ledger: claim, run, record, publish, settle. Each step leaves what the next worker needs to go on.
"""

from grundlag_bus.workers.ledger.ledger import Ledger

__all__ = ["Ledger"]
