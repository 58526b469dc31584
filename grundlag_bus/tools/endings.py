"""How a call ends at its caller when no worker says how."""

from __future__ import annotations

from grundlag_bus.schema.envelope import Call, Failed, Reply


def ended_here(call: Call, response: Failed) -> Reply:
    """Make the reply that the calling side gives itself."""
    return Reply(call.call_id, response, "caller", call.generation, call.attempt)


def deadline_exceeded(call: Call, *, published: bool | None, blocked: bool = False) -> Failed:
    """Say that the deadline passed first.

    published: False when it cannot have run, None when that is unsure; blocked: whether the broker takes no messages.
    """
    remedy = (
        "the broker takes no messages now, since it is short of memory or disk: free some."
        if blocked
        else "give it a longer timeout, or see whether a worker of the provider runs."
    )
    told = f"The call of {call.provider_id}.{call.action_id} did not end before its deadline: {remedy}"
    return Failed("deadline_exceeded", told, {"published": published})


def outcome_unknown(call: Call, told: str, *, published: bool | None) -> Failed:
    """Say that the call may have run. published: None when it is unsure whether the broker has the call."""
    return Failed(
        "outcome_unknown",
        f"The call of {call.provider_id}.{call.action_id} may have run: {told.removesuffix('.')}.",
        {"published": published},
    )


def cancelled(call: Call, *, published: bool | None) -> Failed:
    """Say that the call was cancelled. published: False when it was never started."""
    how = "before it started" if published is False else "and has stopped"
    return Failed(
        "cancelled", f"The call of {call.provider_id}.{call.action_id} was cancelled, {how}.", {"published": published}
    )
