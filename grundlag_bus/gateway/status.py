"""Which HTTP status says how a call ended. The body says it in full, whatever the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Response

OK = 200
OF_THE_ACTION = 422
"""For a code that an action chose."""

STATUS_OF = {
    "input_invalid": 400,
    "answer_invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "action_unknown": 404,
    "answer_conflict": 409,
    "call_id_reused": 409,
    "cancelled": 409,
    "interrupt_expired": 410,
    "payload_too_large": 413,
    "state_invalid": 422,
    "provider_unavailable": 503,
    "overloaded": 503,
    "deadline_exceeded": 504,
    "output_invalid": 502,
    "outcome_unknown": 502,
    "attempts_exhausted": 502,
    "rejected": 502,
    "nested_interrupt": 502,
    "internal": 502,
    "run_unknown": 404,
    "interrupt_unknown": 404,
    "run_state": 409,
    "run_refused": 422,
    "store_away": 503,
}
REFUSALS = (401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 431, 502, 503, 504)
"""Every status of a failed call but 400, which has issues."""


def status_of(response: Response) -> int:
    """Return the status of a response object."""
    if isinstance(response, Failed):
        return STATUS_OF.get(response.code, OF_THE_ACTION)
    return OK
