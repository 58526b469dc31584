"""`ledger show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.ledger.asking import age, ask
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.envelope import Completed, Failed, decode_reply
from grundlag_bus.schema.fields import instant_to_json
from grundlag_bus.store.reading import find_call

if TYPE_CHECKING:
    from grundlag_bus.store.reading import Known
    from grundlag_bus.store.store import Store

_PHASES = {
    "leased": "a worker has it",
    "free": "given back, nobody has it",
    "handing": "its next generation is recorded, and may not be on the broker",
    "waiting": "its next generation is on the broker",
    "ended": "it has ended",
    "dead": "it has ended, with a dead letter",
}


def show(url: str | None, call_id: str, *, as_json: bool, level: str) -> int:
    """Print what is recorded of a call. Raises ConfigurationError, StoreAwayError."""

    async def work(store: Store) -> int:
        known = await find_call(store, call_id)
        if known is None:
            say(f"nothing is recorded of a call {call_id!r}: no worker with this ledger had it, or it was pruned.")
            return Exit.FAILED
        if as_json:
            print_json(to_json(call_id, known), one_line=True)
        else:
            _print(to_json(call_id, known), known)
        return Exit.COMPLETED

    return ask(url, work, level=level)


def to_json(call_id: str, known: Known) -> dict[str, Any]:
    """Tell it as data. Seconds count from the database's now; what is recorded nowhere is null."""
    told: dict[str, Any] = {"callId": call_id, "answersConsumed": list(known.answers)}
    told["cancelledAt"] = None if known.cancelled_at is None else instant_to_json(known.cancelled_at)
    row = known.row
    if row is None:
        return {**told, "phase": None}
    lease, due = row["lease_until"], row["due_at"]
    return {
        **told,
        "phase": row["phase"],
        "providerId": row["provider_id"],
        "actionId": row["action_id"],
        "generation": row["generation"],
        "fence": row["fence"],
        "owner": row["owner"],
        "leaseLeft": None if lease is None else round(lease - known.now, 1),
        "startsLost": row["lost"],
        "lastLoneStart": row["alone_at"],
        "mailboxes": row["mailboxes"].split("\n") if row["mailboxes"] else [],
        "nextDueIn": None if due is None else round(due - known.now, 1),
        "reply": None if row["reply"] is None else _reply(row["reply"]),
        "letterUnpublished": row["letter"] is not None,
        "watchCopy": row["copy"],
        "checkpointBytes": None if row["checkpoint"] is None else len(row["checkpoint"]),
        "createdAt": instant_to_json(row["created_at"]),
        "changedAt": instant_to_json(row["changed_at"]),
    }


def _reply(body: bytes) -> dict[str, Any]:
    """Tell how a call ended. What it returned is its caller's."""
    told: dict[str, Any] = {"bytes": len(body)}
    try:
        reply = decode_reply(body)
    except EnvelopeError as error:
        return {**told, "outcome": None, "unreadable": error.reason}
    told["worker"] = reply.worker
    match reply.response:
        case Completed():
            return {**told, "outcome": "completed"}
        case Failed(code, message):
            return {**told, "outcome": "failed", "code": code, "message": message}
        case interrupted:
            return {**told, "outcome": "interrupted", "interruptId": interrupted.interrupt_id}


def _print(told: dict[str, Any], known: Known) -> None:
    lines = [("call", told["callId"])]
    if known.row is not None:
        lines += _lines(told, known)
    if known.answers:
        lines.append(("answers", f"consumed {', '.join(known.answers)}"))
    if known.cancelled_at is not None:
        lines.append(("cancelled", f"{age(known.now - known.cancelled_at)} ago: it starts no more"))
    out = console()
    for name, text in lines:
        out.print(Text(f"{name:<11}", style="bold") + Text(printable(text), style="not bold"), soft_wrap=True)


def _lines(told: dict[str, Any], known: Known) -> list[tuple[str, str]]:
    row, now = known.row or {}, known.now
    lone = "" if row["alone_at"] is None else f", the last of them with nothing beside it, after {row['alone_at']}"
    lines = [
        ("action", f"{told['providerId']}.{told['actionId']}"),
        ("phase", f"{told['phase']}: {_PHASES.get(told['phase'], 'unknown to this version')}"),
        ("generation", f"{told['generation']}, started {told['fence']} times in all (the fence)"),
        ("lost", f"{told['startsLost']} starts of this generation{lone}"),
        ("mailboxes", ", ".join(told["mailboxes"]) or "none: nobody waits"),
        ("recorded", f"{age(now - row['created_at'])} ago, changed {age(now - row['changed_at'])} ago"),
    ]
    left = told["leaseLeft"]
    if left is not None:
        ends = f"ends in {age(left)}" if left > 0 else f"overdue for {age(-left)}: whoever gets it next takes it over"
        lines.append(("lease", f"of {told['owner']}, {ends}"))
    if told["nextDueIn"] is not None:
        lines.append(("next", f"due in {age(told['nextDueIn'])}" if told["nextDueIn"] > 0 else "due"))
    if told["watchCopy"] is not None:
        lines.append(("watch copy", f"{told['watchCopy']}, which looks after it"))
    if told["checkpointBytes"] is not None:
        lines.append(("checkpoint", f"of {told['checkpointBytes']} bytes, where its next start continues"))
    reply = told["reply"]
    if reply is not None:
        lines.append(("reply", _told_of(reply)))
    if told["letterUnpublished"]:
        lines.append(("letter", "not known to be published: whoever gets the call next publishes it"))
    return lines


def _told_of(reply: dict[str, Any]) -> str:
    size = f"({reply['bytes']} bytes)"
    match reply["outcome"]:
        case None:
            return f"unreadable, {reply['unreadable']} {size}"
        case "failed":
            return f"failed, {reply['code']}: {reply['message']} {size}, by {reply['worker']}"
        case "interrupted":
            return f"interrupted, {reply['interruptId']} {size}, by {reply['worker']}"
        case outcome:
            return f"{outcome} {size}, by {reply['worker']}"
