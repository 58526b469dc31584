# task: Classify these webhook payloads by type.
# expects: ["order 17 over 99.5", "refund of 20", "heartbeat", "list of 3", "something else: 5"]
from typing import Any

payloads: list[Any] = [
    {"type": "order", "id": 17, "total": 99.5},
    {"type": "refund", "amount": 20, "reason": "late"},
    {"type": "ping"},
    [1, 2, 3],
    5,
]


def describe(payload: Any) -> str:
    match payload:
        case {"type": "order", "id": int(order_id), "total": total}:
            return f"order {order_id} over {total}"
        case {"type": "refund", "amount": amount, **rest}:
            return f"refund of {amount}"
        case {"type": "ping" | "pong"}:
            return "heartbeat"
        case [_, *_] as items:
            return f"list of {len(items)}"
        case other:
            return f"something else: {other}"


[describe(p) for p in payloads]
