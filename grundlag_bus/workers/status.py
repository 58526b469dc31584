"""How a worker stands, as a value that may travel, and what that means for those who ask whether it serves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.refusal import short
from grundlag_bus.telemetry.loop import PATIENCE
from grundlag_bus.telemetry.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grundlag_bus.telemetry.loop import LoopWatch
    from grundlag_bus.transport.base import TransportState
    from grundlag_bus.workers.worker import Worker

LIVE_WITHIN = 30.0
"""Seconds that the event loop may stand still."""
MOST_CALLS = 20
"""Calls that a status names."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """How a worker stands at this moment.

    started: it takes calls, which it does no more once it drains; blocked: the broker does not let it publish, by its
    memory or disk alarm; consumers: of all its queues; still: seconds that its event loop has not turned for; calls:
    ids of calls that run, those that began last, 20 at most; ledger_away: why its ledger does
    not serve, where it has one that does not; leases: calls that are leased by it there; oldest_lease: seconds.
    """

    name: str
    providers: tuple[str, ...]
    lanes: tuple[str, ...]
    started: bool
    draining: bool
    in_flight: int
    connected: bool
    blocked: bool
    consumers_wanted: int
    consumers_actual: int
    still: float = 0.0
    calls: tuple[str, ...] = ()
    ledger_away: str | None = None
    leases: int = 0
    oldest_lease: float = 0.0

    @classmethod
    def of(  # noqa: PLR0913  what is known in several places
        cls,
        worker: Worker,
        transport: TransportState,
        *,
        draining: bool,
        still: float,
        calls: Sequence[str],
        ledger_away: str | None,
        leases: int,
        oldest_lease: float,
    ) -> WorkerStatus:
        return cls(
            name=worker.name,
            providers=worker.providers,
            lanes=worker.lanes,
            started=worker.started.is_set(),
            draining=draining,
            in_flight=worker.in_flight,
            connected=transport.connected,
            blocked=transport.blocked,
            consumers_wanted=transport.consumers_wanted,
            consumers_actual=transport.consumers_actual,
            still=round(still, 1),
            calls=tuple(calls[-MOST_CALLS:]),
            ledger_away=ledger_away,
            leases=leases,
            oldest_lease=round(oldest_lease, 1),
        )


def status_to_json(status: WorkerStatus) -> dict[str, Any]:
    return {_NAMES[name]: value for name, value in asdict(status).items()}


def encode_status(status: WorkerStatus) -> bytes:
    return orjson.dumps(status_to_json(status))


def decode_status(body: bytes) -> WorkerStatus:
    """Read a status; fields of a newer worker are ignored, and an older one lacks some. Raises EnvelopeError."""
    try:
        data = orjson.loads(body)
        return _READER.validate_python({name: data[told] for name, told in _NAMES.items() if told in data})
    except (orjson.JSONDecodeError, TypeError, ValidationError) as error:
        raise EnvelopeError(f"it is no worker's status ({short(str(error))})") from error


_NAMES = {field.name: to_camel(field.name) for field in fields(WorkerStatus)}
_READER = TypeAdapter(WorkerStatus)


def ready(status: WorkerStatus) -> Report:
    """Report whether the worker takes calls and can reply to them, and else everything that is in the way."""
    return Report.of(tuple(_reasons(status)))


def live(watch: LoopWatch, *, within: float) -> Report:
    """Report whether the event loop turned in the last seconds; one that is not watched is not complained of."""
    late = watch.late
    return Report.of((f"the event loop has not turned for {late:.0f} s",) if late > within else ())


def _reasons(status: WorkerStatus) -> Iterator[str]:
    if status.draining:
        yield "draining"
    elif not status.started:
        yield "starting"
    if status.still > PATIENCE:
        yield f"the event loop has not turned for {status.still:.0f} s, and the broker ends its connection after 8 s"
        return  # what is known of the rest was so before
    if not status.connected:
        yield "not connected to the broker"
        return  # what is known of the rest is of the connection before
    if status.blocked:
        yield "publishing is blocked by the broker's memory or disk alarm"
    if status.ledger_away is not None:
        yield f"the ledger is away, and nothing is taken: {status.ledger_away}"
    if status.consumers_actual < status.consumers_wanted and not status.draining:
        yield f"{status.consumers_actual} of {status.consumers_wanted} consumers are there"
