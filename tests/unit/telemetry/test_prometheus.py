from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from grundlag_bus import Provider, ProviderRegistry
from grundlag_bus.telemetry import (
    CallBuried,
    CallEnded,
    CallSentOn,
    CallStarted,
    EnvelopeRefused,
    LedgerAnswered,
    LedgerAway,
    LedgerNoted,
    LoopBlocked,
    LoopTurned,
    ReplyLate,
)
from grundlag_bus.telemetry.exposition import expose
from grundlag_bus.telemetry.labels import OTHER
from grundlag_bus.telemetry.prometheus import MOST_CODES, MOST_CULPRITS, MOST_WAITING, PrometheusHook
from grundlag_bus.workers.status import WorkerStatus
from tests.support.scrape import Scrape

_STARTED = CallStarted("notes", "add", "main", "c1", 1, 1, queued=0.02, redelivered=False, lost=0)
_ENDED = CallEnded("notes", "add", "main", "c1", "completed", None, ran=0.2, total=0.3)
_STATUS = WorkerStatus(
    name="w1",
    providers=("notes",),
    lanes=("main",),
    started=True,
    draining=False,
    in_flight=3,
    connected=True,
    blocked=False,
    consumers_wanted=2,
    consumers_actual=2,
)


@pytest.fixture
def hook() -> PrometheusHook:
    notes = Provider("notes", name="Notes")
    notes.action("add", name="Add")(_add)
    return PrometheusHook(ProviderRegistry([notes]))


def _add(text: dict[str, str]) -> dict[str, str]:
    return text


def _scraped(hook: PrometheusHook) -> Scrape:
    hook(LoopTurned(0.0))
    return Scrape(expose(hook.collectors))


def test_calls_are_counted_by_provider_action_outcome_and_code(hook: PrometheusHook) -> None:
    for event in (_ENDED, _ENDED, replace(_ENDED, outcome="failed", code="forbidden")):
        hook(event)

    scraped = _scraped(hook)

    by = {"provider": "notes", "action": "add"}
    assert scraped.value("grundlag_calls_total", **by, outcome="completed", code="") == 2
    assert scraped.value("grundlag_calls_total", **by, outcome="failed", code="forbidden") == 1


def test_times_are_histograms_from_a_millisecond_to_a_day(hook: PrometheusHook) -> None:
    hook(_STARTED)
    hook(replace(_ENDED, ran=7200.5, total=90_000.0))

    scraped = _scraped(hook)

    assert scraped.value("grundlag_call_queue_seconds_bucket", provider="notes", lane="main", le="0.01") == 0
    assert scraped.value("grundlag_call_queue_seconds_bucket", provider="notes", lane="main", le="0.025") == 1
    assert scraped.value("grundlag_call_run_seconds_bucket", provider="notes", action="add", le="7200.0") == 0
    assert scraped.value("grundlag_call_run_seconds_bucket", provider="notes", action="add", le="86400.0") == 1
    assert scraped.value("grundlag_call_seconds_sum", provider="notes", action="add") == 90_000
    bounds = {float(labels["le"]) for labels in scraped.labels("grundlag_call_seconds_bucket")}
    assert min(bounds) == 0.001
    assert sorted(bounds)[-2] == 86_400


def test_a_time_in_the_queue_that_is_not_known_is_not_made_up(hook: PrometheusHook) -> None:
    hook(replace(_STARTED, queued=None, generation=2))

    scraped = _scraped(hook)

    assert scraped.value("grundlag_call_starts_total", provider="notes", action="add") == 1
    assert scraped.labels("grundlag_call_queue_seconds_count") == []


def test_the_rest_of_what_happens_is_counted(hook: PrometheusHook) -> None:
    of = ("notes", "add", "main", "c1")
    for event in (
        replace(_STARTED, redelivered=True),
        CallSentOn(*of, "retry", 1.0),
        CallSentOn(*of, "defer", 1.0),
        CallBuried(*of, "attempts_exhausted"),
        EnvelopeRefused("no JSON"),
        ReplyLate("c1", "w1"),
        LoopTurned(0.002),
        LoopBlocked(1.5, "notes.add"),
        LoopBlocked(2.0, "notes.add"),
    ):
        hook(event)

    scraped = _scraped(hook)

    by = {"provider": "notes", "action": "add"}
    assert scraped.value("grundlag_redeliveries_total", **by) == 1
    assert scraped.value("grundlag_calls_sent_on_total", **by, why="retry") == 1
    assert scraped.value("grundlag_calls_sent_on_total", **by, why="defer") == 1
    assert scraped.value("grundlag_dead_letters_total", **by, code="attempts_exhausted") == 1
    assert scraped.value("grundlag_envelopes_refused_total") == 1
    assert scraped.value("grundlag_late_replies_total") == 1
    assert scraped.value("grundlag_loop_lag_seconds_count") == 2  # one by the scrape
    assert scraped.value("grundlag_loop_blocks_total", culprit="notes.add") == 2
    assert scraped.value("grundlag_loop_blocked_seconds_total", culprit="notes.add") == 3.5


def test_a_thousand_hostile_names_make_no_more_series_than_a_few(hook: PrometheusHook) -> None:
    hostile = [f'x{number}"}}\n# HELP {{' for number in range(1000)]
    for name in hostile:
        hook(replace(_STARTED, action_id=name))
        hook(replace(_STARTED, provider_id=name, lane=name))
        hook(replace(_ENDED, provider_id=name, action_id=name, outcome="failed", code=name))
        hook(CallBuried(name, name, name, name, name))
        hook(LoopBlocked(1.0, name))

    hook(LoopTurned(0.0))
    exposed = expose(hook.collectors)
    scraped = Scrape(exposed)

    assert {labels["provider"] for labels in scraped.labels("grundlag_call_starts_total")} == {"notes", OTHER}
    assert {labels["action"] for labels in scraped.labels("grundlag_call_starts_total")} == {OTHER}
    assert len(scraped.labels("grundlag_calls_total")) == MOST_CODES + 1
    assert len(scraped.labels("grundlag_loop_blocks_total")) == MOST_CULPRITS + 1
    assert sum(scraped.of("grundlag_loop_blocks_total")) == 1000
    assert len(exposed.splitlines()) < 1000


def test_many_calls_show_also_where_no_loop_is_watched(hook: PrometheusHook) -> None:
    for _ in range(MOST_WAITING * 2 + 1):
        hook(_ENDED)

    scraped = Scrape(expose(hook.collectors))

    assert scraped.of("grundlag_calls_total") == [MOST_WAITING * 2]
    assert scraped.of("grundlag_call_seconds_count") == [MOST_WAITING * 2]


def test_the_start_of_a_call_that_came_back_shows_at_once_since_it_may_be_the_last_act(hook: PrometheusHook) -> None:
    hook(replace(_STARTED, redelivered=True, lost=1))

    assert Scrape(expose(hook.collectors)).of("grundlag_redeliveries_total") == [1]


def test_what_was_shown_is_not_added_again(hook: PrometheusHook) -> None:
    hook(_ENDED)
    assert _scraped(hook).of("grundlag_calls_total") == [1]
    hook(_ENDED)
    assert _scraped(hook).of("grundlag_calls_total") == [2]
    scraped = _scraped(hook)
    assert scraped.of("grundlag_call_seconds_count") == [2]
    assert scraped.of("grundlag_call_seconds_sum") == [0.6]


def test_a_known_code_has_its_label_however_many_others_came_before(hook: PrometheusHook) -> None:
    for number in range(1000):
        hook(replace(_ENDED, outcome="failed", code=f"mine_{number}"))
    hook(replace(_ENDED, outcome="failed", code="internal"))

    by = {"provider": "notes", "action": "add", "outcome": "failed"}
    assert _scraped(hook).value("grundlag_calls_total", **by, code="internal") == 1


def test_where_workers_stand_is_summed_when_it_is_asked_for() -> None:
    draining = replace(_STATUS, draining=True, connected=False, blocked=True, in_flight=1, consumers_actual=0)

    scraped = Scrape(expose(CollectorRegistry(), [_STATUS, draining]))

    assert {name: scraped.value(f"grundlag_{name}") for name in _GAUGES} == {
        "workers": 2,
        "workers_serving": 1,
        "workers_connected": 1,
        "workers_blocked": 1,
        "calls_in_flight": 4,
        "consumers_wanted": 4,
        "consumers_actual": 2,
        "loop_still_seconds": 0,
    }


@pytest.mark.parametrize("still", [8.5, 20.0])
def test_a_worker_whose_loop_stands_still_serves_nothing_whatever_it_said_before(still: float) -> None:
    scraped = Scrape(expose(CollectorRegistry(), [replace(_STATUS, still=1.5), replace(_STATUS, still=still)]))

    assert {name: scraped.value(f"grundlag_{name}") for name in _GAUGES} == {
        "workers": 2,
        "workers_serving": 1,
        "workers_connected": 1,
        "workers_blocked": 0,
        "calls_in_flight": 6,
        "consumers_wanted": 4,
        "consumers_actual": 2,
        "loop_still_seconds": still,
    }


@pytest.mark.parametrize("lacking", [{"connected": False}, {"consumers_actual": 1}, {"started": False}])
def test_only_who_is_connected_and_consumes_takes_calls(lacking: dict[str, Any]) -> None:
    scraped = Scrape(expose(CollectorRegistry(), [replace(_STATUS, **lacking)]))
    assert scraped.value("grundlag_workers_serving") == 0


_GAUGES = (
    *("workers", "workers_serving", "workers_connected", "workers_blocked"),
    *("calls_in_flight", "consumers_wanted", "consumers_actual", "loop_still_seconds"),
)


def test_what_is_exposed_is_what_a_program_registers_too_and_each_series_once(hook: PrometheusHook) -> None:
    for event in (_STARTED, _ENDED, LoopTurned(0.0)):
        hook(event)
    PrometheusHook()  # a second one beside it
    exposed = expose(hook.collectors, [_STATUS]).decode()

    samples = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
    ]

    assert len(samples) == len(set(samples))
    assert not any(name.endswith("_created") for name, _ in samples)


def test_what_a_ledger_does_is_counted_and_its_leases_are_shown(hook: PrometheusHook) -> None:
    for event in (
        LedgerAnswered(0.002),
        LedgerAnswered(3.0),
        LedgerAway(1.5),
        LedgerAway(2.0),
        LedgerNoted("lease_lost"),
    ):
        hook(event)
    scraped = _scraped(hook)
    assert scraped.value("grundlag_ledger_seconds_count") == 2
    assert scraped.value("grundlag_ledger_away_seconds_total") == 3.5
    assert scraped.value("grundlag_ledger_notes_total", what="lease_lost") == 1
    away = replace(_STATUS, ledger_away="It is locked.", leases=2, oldest_lease=4.0)
    shown = Scrape(expose(hook.collectors, [_STATUS, away, replace(_STATUS, leases=1, oldest_lease=7.0)]))
    assert shown.value("grundlag_ledgers_away") == 1
    assert shown.value("grundlag_leases_held") == 3
    assert shown.value("grundlag_lease_oldest_seconds") == 7
