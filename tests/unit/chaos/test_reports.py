import re

import orjson

from grundlag_bus.chaos.checker import Throughput
from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.page import page, plot
from grundlag_bus.chaos.plot import bars, columns, strip
from grundlag_bus.chaos.report import Report
from tests.support.made_up_calls import MadeUp, fault, verdict_of


def report(*, hung: int = 0) -> Report:
    went_well = [record for n in range(30) for record in MadeUp(f"c{n}", at=10.0 + n).records]
    hanging = [MadeUp(f"h{n}", kind="<b>").attempted for n in range(hung)]
    verdict = verdict_of([*went_well, *hanging, fault("worker-kill", at=20, until=22)], until=100.0)
    return Report(verdict, 7, 60.0, "amqp://localhost", {"node-restart": "the broker is not ours"})


class TestJson:
    def test_it_has_the_figures_and_says_whether_every_promise_was_kept(self) -> None:
        told = orjson.loads(orjson.dumps(report().to_json()))
        assert told["kept"] is True
        assert (told["attempted"], told["acknowledged"], told["completed"], told["seed"]) == (30, 30, 30, 7)
        assert told["faults"] == {
            "worker-kill": {"count": 1, "judged": 1, "bound": 10.0, "worst": 2.0, "recovered": True}
        }
        assert told["marks"] == [{"at": 10.0, "until": 12.0, "fault": "worker-kill", "target": "worker-2"}]
        assert sum(told["throughput"]) == 30
        assert told["leftOut"] == {"node-restart": "the broker is not ours"}

    def test_it_names_every_promise_that_was_broken_with_its_call(self) -> None:
        told = report(hung=1).to_json()
        assert told["kept"] is False
        assert told["broken"] == [{"promise": "hung", "told": "call caller-1/1 (<b>) has no end", "callId": "h0"}]

    def test_a_fault_that_calls_never_recovered_from_is_no_number(self) -> None:
        verdict = verdict_of([*MadeUp(at=5.0).records, fault(at=20, until=22)], until=100.0)
        told = Report(verdict, 1, 60.0, "").to_json()["faults"]["worker-kill"]
        assert (told["worst"], told["recovered"]) == (None, False)


class TestText:
    def test_of_one_promise_some_are_told_and_the_others_counted(self) -> None:
        lines = list(report(hung=25).told())
        assert len(lines) == 21
        assert lines[-1] == "hung: 5 more"

    def test_bars_are_as_high_as_their_values(self) -> None:
        assert bars([0, 1, 2, 4], 2) == ["   █", " ▄██"]
        assert bars([0, 0], 1) == ["  "]

    def test_seconds_are_averaged_where_there_are_more_than_columns(self) -> None:
        assert columns([1, 3, 5, 7], 2) == [2, 6]
        assert columns([1, 3], 10) == [1, 3]
        assert columns([], 10) == []

    def test_faults_stand_below_their_seconds(self) -> None:
        marks = [fault(at=12, until=14.5), Mark(17, "cut", "proxy")]
        assert strip(marks, begin=10.0, seconds=10, width=80) == "  •••  •  "
        assert strip(marks, begin=10.0, seconds=10, width=5) == " •••  "[:5]

    def test_a_fault_outside_of_the_plot_is_left_out(self) -> None:
        assert strip([fault(at=5, until=6), fault(at=90, until=99)], begin=10.0, seconds=3, width=3) == "   "


class TestPage:
    def test_it_shows_figures_plot_faults_and_what_was_left_out(self) -> None:
        told = page(report())
        assert "Every promise was kept" in told
        assert "<polyline" in told
        assert "worker-kill of worker-2, 10.0 s" in told
        assert "Left out: node-restart, since the broker is not ours" in told
        assert "<td>attempted</td><td>30</td>" in told

    def test_what_was_broken_stands_first_and_is_no_markup(self) -> None:
        told = page(report(hung=2))
        assert "2 times a promise was broken" in told
        assert "(&lt;b&gt;)" in told
        assert "<b>" not in told

    def test_a_run_in_which_nothing_completed_has_no_plot(self) -> None:
        assert "<svg" not in plot(Throughput(0.0, ()), [fault()])

    def test_every_second_is_a_point(self) -> None:
        drawn = re.search(r'points="([^"]*)"', plot(Throughput(0.0, (1, 2, 3)), []))
        assert drawn is not None
        assert len(drawn[1].split()) == 3
