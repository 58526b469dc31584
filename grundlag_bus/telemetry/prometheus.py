"""Counts what happens to calls, for Prometheus.

    grundlag_calls_total                {provider, action, outcome, code}   calls that ended in a worker
    grundlag_call_starts_total          {provider, action}                  starts of actions: all attempts
    grundlag_calls_sent_on_total        {provider, action, why}             retry, defer, absent
    grundlag_dead_letters_total         {provider, action, code}
    grundlag_redeliveries_total         {provider, action}                  starts of what was handed out before
    grundlag_envelopes_refused_total
    grundlag_late_replies_total                                             at a caller
    grundlag_call_queue_seconds         {provider, lane}                    histogram: sent until started
    grundlag_call_run_seconds           {provider, action}                  histogram: one start
    grundlag_call_seconds               {provider, action}                  histogram: sent until ended
    grundlag_loop_lag_seconds                                               histogram: how late the event loop turns
    grundlag_loop_blocks_total          {culprit}
    grundlag_loop_blocked_seconds_total {culprit}
    grundlag_ledger_seconds                                                 histogram: until a ledger answered
    grundlag_ledger_away_seconds_total                                      its database did not serve
    grundlag_ledger_notes_total         {what}                              what it kept from going wrong: see `NOTES`

Labels are bounded: providers and actions are those of the registry, codes those of this package and the first few that
actions have of their own, culprits the same; whatever is beyond is `other`.

Starts and ends of calls show at the next turn of a watched loop (0.2 s) or at the next other event, or when there are
enough of them; of a process that is killed, those of this last moment may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

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
from grundlag_bus.telemetry.labels import CODES, Actions, Bounded
from grundlag_bus.telemetry.tally import Counted, Observed, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.telemetry.labels import Offers

MOST_CODES = 50
MOST_CULPRITS = 50
MOST_LANES = 20

_CALL_SECONDS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    *(60, 300, 1_800, 7_200, 86_400),
)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

MOST_WAITING = 100  # ends of calls

_SumT = TypeVar("_SumT")


class PrometheusHook:
    """Counts events.

    offers: the ProviderRegistry whose ids may be labels; collectors: where the metrics are registered, by default a
    registry of their own, since a name can be registered but once in each.
    """

    def __init__(self, offers: Offers | None = None, *, collectors: CollectorRegistry | None = None) -> None:
        self.collectors = CollectorRegistry(auto_describe=True) if collectors is None else collectors
        self._tally = Tally()
        self._waiting = 0
        self._actions = Actions(offers)
        self._lanes = Bounded(("main", "long"), most=MOST_LANES)
        self._codes = Bounded(CODES, most=MOST_CODES)
        self._culprits = Bounded((), most=MOST_CULPRITS)
        by_action = ("provider", "action")
        self._ended = self._counter("calls", "Calls that ended in a worker.", *by_action, "outcome", "code")
        self._started = self._counter("call_starts", "Starts of actions, all attempts.", *by_action)
        self._sent_on = self._counter("calls_sent_on", "Calls sent on to be started later.", *by_action, "why")
        self._buried = self._counter("dead_letters", "Calls that a worker dead-lettered.", *by_action, "code")
        self._redelivered = self._counter("redeliveries", "Starts of what was handed out before.", *by_action)
        self._refused = self._counter("envelopes_refused", "Messages that are no envelopes.")
        self._late = self._counter("late_replies", "Replies that nothing waited for.")
        self._blocks = self._counter("loop_blocks", "Blockings of the event loop.", "culprit")
        self._blocked = self._counter("loop_blocked_seconds", "Time that the event loop was blocked.", "culprit")
        self._queued = self._histogram("call_queue_seconds", "From sent to started.", "provider", "lane")
        self._ran = self._histogram("call_run_seconds", "One start of an action.", *by_action)
        self._total = self._histogram("call_seconds", "From sent to ended, with all pauses.", *by_action)
        self._answered = self._histogram("ledger_seconds", "Until a ledger answered.", buckets=_LAG_SECONDS)
        self._away = self._counter("ledger_away_seconds", "Time that a ledger's database did not serve.")
        self._noted = self._counter("ledger_notes", "What a ledger kept from going wrong.", "what")
        self._lag = self._histogram("loop_lag_seconds", "How late the event loop turns.", buckets=_LAG_SECONDS)

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, CallStarted):
            self._count_start(event)
            if not event.redelivered:  # a call that came back may be one that kills its process
                return
        elif isinstance(event, LedgerAnswered):
            self._answered[()].observe(event.seconds)
            return
        elif isinstance(event, CallEnded):
            self._count_end(event)
            self._waiting += 1
            if self._waiting < MOST_WAITING:
                return
        else:
            self._count(event)
        self._waiting = 0
        self._tally.hand_over()

    def _count_start(self, event: CallStarted) -> None:
        action = self._actions.of(event.provider_id, event.action_id)
        self._started[action].inc()
        if event.redelivered:
            self._redelivered[action].inc()
        if event.queued is not None:
            self._queued[action[0], self._lanes.of(event.lane)].observe(event.queued)

    def _count_end(self, event: CallEnded) -> None:
        action = self._actions.of(event.provider_id, event.action_id)
        code = "" if event.code is None else self._codes.of(event.code)
        self._ended[(*action, event.outcome, code)].inc()
        if event.ran is not None:
            self._ran[action].observe(event.ran)
        self._total[action].observe(event.total)

    def _count(self, event: Event) -> None:
        match event:
            case LoopTurned():
                self._lag[()].observe(event.lag)
            case CallSentOn():
                action = self._actions.of(event.provider_id, event.action_id)
                self._sent_on[(*action, event.why)].inc()
            case CallBuried():
                action = self._actions.of(event.provider_id, event.action_id)
                self._buried[(*action, self._codes.of(event.code))].inc()
            case LoopBlocked():
                culprit = (self._culprits.of(event.culprit),)
                self._blocks[culprit].inc()
                self._blocked[culprit].inc(event.seconds)
            case LedgerAway():
                self._away[()].inc(event.seconds)
            case LedgerNoted():
                self._noted[event.what,].inc()
            case EnvelopeRefused():
                self._refused[()].inc()
            case ReplyLate():
                self._late[()].inc()

    def _counter(self, name: str, told: str, *labels: str) -> _Series[Counted]:
        counter = Counter(name, told, labels, namespace="grundlag", registry=self.collectors)
        return _Series(lambda values: Counted(counter.labels(*values) if values else counter, self._tally))

    def _histogram(
        self, name: str, told: str, *labels: str, buckets: tuple[float, ...] = _CALL_SECONDS
    ) -> _Series[Observed]:
        histogram = Histogram(name, told, labels, namespace="grundlag", buckets=buckets, registry=self.collectors)
        return _Series(lambda values: Observed(histogram.labels(*values) if values else histogram, self._tally))


class _Series(dict[tuple[str, ...], _SumT]):
    """The sums of a metric by the values of its labels."""

    def __init__(self, make: Callable[[tuple[str, ...]], _SumT]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, values: tuple[str, ...]) -> _SumT:
        made = self[values] = self._make(values)
        return made
