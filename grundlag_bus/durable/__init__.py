"""Runs that survive whatever ends their processes: calls, scripts, agents, each a row and a journal in a store.

A run's truth is its journal. Whoever has the run (its owner, by a lease with a fence) replays it, goes on as far as it
can, and parks it: a run that waits costs a row. What is written together is one transaction:

    start      the run, and `run.started`                               -> by whom it was asked for
    claim      owner, fence, until when                                 -> an owner, of a run that is due
    entry      the next of the journal; of a question, its row too      -> the owner, under its fence
    call       its envelope as `recorded`; `published` once confirmed   -> the owner, under its fence
    reply      of a call, once, and the run is due                      -> any host, then it settles the delivery
    answer     its entry, the question's row, a row for the books; due  -> whoever answers, rejects, edits; the clock
    park       no owner any more, unless something came meanwhile       -> the owner, under its fence
    end        how, and `run.ended`; open questions are void            -> the owner, under its fence

A process may die between any two of these. An owner that is gone loses the run when its lease ends, and the next one
replays it: a call without an entry of its end is made again under the same id, which is derived from the run and the
call's place in it, and then has its recorded reply, is waited for, or is published again as it was recorded: the
provider's ledger makes that the same call. A reply that was recorded and not settled comes again, and is dropped.
What is due is found by the database's clock, so nothing hangs on a message between hosts: those are haste alone.
"""

from grundlag_bus.durable.runs import Runs
from grundlag_bus.schema.run import OpenInterrupt, Run, RunEntry

__all__ = ["OpenInterrupt", "Run", "RunEntry", "Runs"]
