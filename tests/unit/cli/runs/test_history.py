from __future__ import annotations

from typing import Any

from grundlag_bus.cli.runs.history import History, failure, head, waits
from grundlag_bus.cli.runs.starting import results
from grundlag_bus.cli.runs.watching import missing
from grundlag_bus.durable import OpenInterrupt, Run, RunEntry

ASKED = {"interruptId": "i1", "message": "Delete?", "data": {"title": "Tea"}}
JOURNAL: list[dict[str, Any]] = [
    {"kind": "run.started", "run": "script", "name": "# tea", "userId": "ada"},
    {"kind": "began"},
    {"kind": "called", "call": 0, "function": "demoAdd", "input": {"a": 1}, "at": 102.0},
    {"kind": "settled", "call": 0, "outcome": {"status": "completed", "value": {"sum": 3}}, "at": 103.0},
    {"kind": "delivered", "call": 0},
    {"kind": "called", "call": 1, "function": "teaDrop", "input": {"id": "x"}, "at": 105.0},
    {"kind": "settled", "call": 1, "outcome": {"status": "interrupted", "interrupt": ASKED}, "at": 106.0},
    {"kind": "edited", "call": 1, "interruptId": "i1", "input": {"id": "y"}, "by": "eve"},
    {"kind": "settled", "call": 1, "outcome": {"status": "interrupted", "interrupt": ASKED}, "at": 108.0},
    {"kind": "answered", "call": 1, "interruptId": "i1", "answer": {"approved": True}, "by": None},
    {"kind": "settled", "call": 1, "outcome": {"status": "failed", "code": "gone", "message": "No \x1b tea."}, "at": 1},
    {"kind": "run.ended", "status": "failed", "error": {"code": "x", "message": "m", "details": {"line": 3}}},
]


def entries(*journal: dict[str, Any]) -> list[RunEntry]:
    return [RunEntry(place, entry, 100.0 + place) for place, entry in enumerate(journal)]


def run(**fields: Any) -> Run:
    given = {"run_id": "r1", "kind": "script", "name": "# tea", "status": "failed", "created_at": 1, "changed_at": 2}
    return Run(**{**given, **fields})


def test_a_journal_is_told_in_order_with_who_and_when() -> None:
    history = History()
    told = [line for entry in entries(*JOURNAL) for line in history.lines(entry)]
    assert told[0] == "1970-01-01 00:01:40Z  started by ada"
    assert [line.partition("  ")[2] for line in told[1:]] == [
        '1 demoAdd is called with {"a":1}',
        '1 demoAdd completed after 1.0 s: {"sum":3}',
        '2 teaDrop is called with {"id":"x"}',
        '2 teaDrop asks "Delete?" (i1) {"title":"Tea"}',
        '2 teaDrop is edited by eve, and called with {"id":"y"} instead',
        '2 teaDrop asks "Delete?" (i1) {"title":"Tea"}',
        '2 teaDrop is answered: {"approved":true}',
        "2 teaDrop failed after 1.0 s (gone): No \\x1b tea.",
        "failed (x, line 3): m",
    ]


def test_a_rejected_call_is_told_as_one_that_does_not_run() -> None:
    outcome = {"status": "failed", "code": "rejected", "message": "eve rejected the call: no"}
    rejected = {"kind": "settled", "call": 1, "outcome": outcome, "at": 1, "interruptId": "i1", "by": "eve"}
    history = History()
    told = [line for entry in entries(*JOURNAL[:7], rejected) for line in history.lines(entry)]
    assert told[-1].endswith("  2 teaDrop does not run (rejected): eve rejected the call: no")


def test_what_a_model_says_is_told() -> None:
    said = [{"kind": "replied", "record": {"text": text, "model": "test"}} for text in ("Hello.", "")]
    history = History()
    (told,) = [line for entry in entries(*said) for line in history.lines(entry)]
    assert told.endswith("  test says: Hello.")


def test_what_counts_again_is_what_completed_with_what_it_was_called_with() -> None:
    completed = {"kind": "settled", "call": 1, "outcome": {"status": "completed", "value": 7}, "at": 1}
    assert results(entries(*JOURNAL[:7])) == ['demoAdd {"a":1} = {"sum":3}']
    assert results(entries(*JOURNAL[:9], completed)) == ['demoAdd {"a":1} = {"sum":3}', 'teaDrop {"id":"y"} = 7']


def test_the_head_says_what_a_run_is() -> None:
    told = list(head(run(user_id="ada", answerer="eve", ended_at=60.0, retry_of="r0", versions={"grundlagBus": "1"})))
    assert told == [
        "run      r1",
        "kind     script: # tea",
        "status   failed, 1970-01-01 00:01:00Z",
        "user     ada, and eve answers",
        "retries  r0",
        "version  grundlag-bus 1",
    ]
    assert failure(run(error={"code": "x", "message": "m"})) == "the run r1 failed (x): m"
    assert failure(run(status="cancelled")) == "the run r1 was cancelled."


def test_a_question_is_told_with_the_command_that_answers_it() -> None:
    asked = OpenInterrupt(
        interrupt_id="i1",
        run_id="r1",
        function="teaDrop",
        message="Delete?",
        data=None,
        input={},
        answer_schema=None,
        status="pending",
        asked_at=0.0,
        expires_at=60.0,
        answerer="ada",
    )
    told = waits(asked)
    assert told == ('"Delete?" waits for an answer until 1970-01-01 00:01:00Z: `grundlag-bus answer i1 --by ada`.')


def test_silence_is_told_as_what_may_be_missing() -> None:
    started, began, called, settled, *_ = entries(*JOURNAL)
    answered = entries(JOURNAL[9])[0]
    assert "no host has begun" in str(missing(started))
    assert "is a `grundlag-bus host` running" in str(missing(answered))
    assert "host --model" in str(missing(entries({"kind": "prompted"})[0]))
    assert missing(called) == "demoAdd is under way, or waits for a worker."
    assert (missing(began), missing(settled)) == (None, None)
