"""Which calls a caller makes: decided by a seed, so that its successor knows what it was about to do.

The n-th call of a caller is the same in every run of a seed: its kind, its input, when it is cancelled. Its id belongs
to one run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.chaos.provider import FAILURE, FREE, KEPT, RETRIES, STEPS, result_of
from grundlag_bus.schema.envelope import (
    Call,
    Completed,
    Failed,
    Interrupted,
    Request,
    Response,
    Resumption,
    derived_call_id,
    derived_id,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "chaos"
_LARGEST = 200_000
WEIGHTS: Mapping[str, int] = {
    "quick": 44,
    "again": 8,
    "slow": 6,
    "sync": 6,
    "failing": 5,
    "retrying": 3,
    "deferring": 3,
    "asking": 5,
    "cancelled": 5,
    "large": 2,
    "long": 3,
    "telling": 5,
    "once": 5,
    "storing": 10,
}
"""How many calls of each kind there are in a hundred or so; the kind is the id of the action that is called."""

_SECONDS: Mapping[str, tuple[float, float]] = {
    "slow": (0.1, 1.5),
    "sync": (0.01, 0.2),
    "cancelled": (0.2, 4.0),
    "long": (0.5, 4.0),
    "telling": (0.03, 0.3),
    "once": (0.0, 0.3),
    "storing": (0.0, 0.1),
}
_LANES: Mapping[str, str] = {"long": "long"}
_KINDS_OF = {False: [kind for kind in WEIGHTS if kind != "storing"], True: list(WEIGHTS)}


@dataclass(frozen=True, slots=True)
class Plan:
    """One call to be made.

    cancel_after: seconds, for one that is to be cancelled; submitted: sent, and then awaited apart.
    """

    ordinal: int
    kind: str
    kept: bool
    value: int
    seconds: float = 0.0
    text: str = ""
    cancel_after: float | None = None
    submitted: bool = False
    approved: bool = True

    @property
    def provider_id(self) -> str:
        return KEPT if self.kept else FREE

    @property
    def lane(self) -> str:
        return _LANES.get(self.kind, "main")

    @property
    def repeatable(self) -> bool:
        """Whether the design lets a caller send it again where nobody knows what became of it."""
        return self.kept or self.kind == "again"

    @property
    def watched(self) -> bool:
        return self.kind == "telling"

    @property
    def input(self) -> dict[str, Any]:
        return {"value": self.value, "seconds": self.seconds, "text": self.text}


def plan(seed: int, caller: str, ordinal: int, *, kept_share: float) -> Plan:
    """Plan a caller's call of this number, from 1. kept_share: of all calls, those that workers with a ledger serve."""
    chance = random.Random(f"{seed}/{caller}/{ordinal}")  # noqa: S311  it guards nothing
    kept = chance.random() < kept_share
    kinds = _KINDS_OF[kept]
    kind = chance.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
    return Plan(
        ordinal,
        kind,
        kept,
        value=chance.randrange(1_000_000),
        seconds=round(chance.uniform(*_SECONDS.get(kind, (0.0, 0.0))), 3),
        text="x" * chance.randrange(_LARGEST // 4, _LARGEST) if kind == "large" else "",
        cancel_after=round(chance.uniform(0.0, 2.0), 3) if kind == "cancelled" else None,
        submitted=kind != "cancelled" and chance.random() < 0.5,  # noqa: PLR2004  a half
        approved=chance.random() < 0.5,  # noqa: PLR2004  the same
    )


def call_of(planned: Plan, *, run: str, caller: str, now: float, timeout: float) -> Call:
    """Make the call of a plan. run: tells the ids of this run from any other's; now: Unix seconds."""
    return Call(
        call_id=derived_id("chaos", f"{run}/{caller}", str(planned.ordinal).encode()),
        provider_id=planned.provider_id,
        action_id=planned.kind,
        request=Request(planned.input),
        deadline=now + timeout,
        lane=planned.lane,
        user_id=USER,
        sent_at=now,
        idempotent=planned.repeatable,
    )


def answer_of(planned: Plan, asks: Mapping[str, Any], *, now: float, timeout: float) -> Call:
    """Make the call that answers an interrupt. asks: its id and its sealed state."""
    interrupt_id, state, answer = asks["interruptId"], asks["state"], {"approved": planned.approved}
    claims = [planned.provider_id, planned.kind, USER, state, planned.input]
    return Call(
        call_id=derived_call_id(interrupt_id, answer, claims),
        provider_id=planned.provider_id,
        action_id=planned.kind,
        request=Request(planned.input, Resumption(interrupt_id, answer, state, USER)),
        deadline=now + timeout,
        lane=planned.lane,
        user_id=USER,
        sent_at=now,
        idempotent=planned.repeatable,
    )


def how(response: Response) -> str:
    """Say in a word how a call ended."""
    match response:
        case Completed():
            return "completed"
        case Interrupted():
            return "interrupted"
        case Failed(code):
            return code


def asks(response: Response) -> dict[str, Any] | None:
    """Return what has to be kept to answer later."""
    if isinstance(response, Interrupted):
        return {"interruptId": response.interrupt_id, "state": response.state}
    return None


def fits(planned: Plan, call: Call, response: Response) -> bool:
    """Whether a response is one that this call can have: the result of another one is not."""
    match response:
        case Completed(result, items):
            done = result if isinstance(result, dict) else {}
            fit = (done.get("value"), done.get("call_id")) == (result_of(planned.value), call.call_id)
            fit = (
                fit and planned.kind != "failing" and (planned.kind != "retrying" or done.get("attempt") == RETRIES + 1)
            )
            fit = fit and (planned.kind != "asking" or call.request.resumption is not None)
            return fit and done.get("text") == _text_of(planned) and _items_fit(planned, call, items)
        case Interrupted(data=data):
            asked = {"value": planned.value, "callId": call.call_id}
            return planned.kind == "asking" and call.request.resumption is None and data == asked
        case Failed(code, details=details):
            return code != FAILURE or (
                planned.kind == "failing" and details == {"value": planned.value, "callId": call.call_id}
            )


def _may_complete(planned: Plan, call: Call, attempt: Any) -> bool:
    match planned.kind:
        case "failing":
            return False
        case "retrying":
            return bool(attempt == RETRIES + 1)
        case "asking":
            return call.request.resumption is not None
    return True


def _text_of(planned: Plan) -> str:
    return planned.text if planned.kind == "large" else ""


def _items_fit(planned: Plan, call: Call, items: list[dict[str, Any]]) -> bool:
    steps = range(STEPS if planned.kind == "telling" else 0)
    return [item["data"] for item in items] == [{"step": step, "callId": call.call_id} for step in steps]
