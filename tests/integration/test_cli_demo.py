"""The demo on the embedded bus, with calendar files that real programs wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_the_demo_plays_the_main_job_and_answers_its_own_question(cli: CommandLine) -> None:
    ended = cli.run("demo")
    complaints = [line for line in ended.err.splitlines() if '"loop_blocked"' not in line]  # which a busy machine does
    assert (ended.code, complaints) == (0, [])
    told = iter(ended.out.splitlines())
    for text in (
        "embedded bus",
        "calendarImportIcs → grundlag.1.calls.calendar.main → this process → completed",
        "calendarSearchEvents →",
        "2026-09-15 07:30 Europe/Berlin (UTC+2)",
        "calendarCreateEvent →",
        "calendarDeleteEvent → grundlag.1.calls.calendar.main → this process → interrupted",
        "the demo answers its own question",
        "calendarDeleteEvent → grundlag.1.calls.calendar.main → this process → completed",
        "It is deleted.",
        "A script imports the calendar",
        "calendarDeleteEvent → grundlag.1.calls.calendar.main → this process → interrupted",
        "calendarDeleteEvent → grundlag.1.calls.calendar.main → this process → completed",
        'The script returns {"imported":6,"clashes":1,"deleted":1}.',
        "An agent does the same",
        "calendarDeleteEvent → grundlag.1.calls.calendar.main → this process → interrupted",
        'The agent says: "Deleted: True."',
    ):
        assert any(text in line for line in told), f"{text!r} is not told in its turn:\n{ended.out}"


def test_runs_of_the_demo_do_not_depend_on_each_other(cli: CommandLine) -> None:
    for _ in range(2):
        assert "6 events imported: 6 new" in cli.run("demo").out
    assert list(cli.directory.iterdir()) == []


CALENDAR = """BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//x//EN\r
{events}END:VCALENDAR\r
"""
EVENT = "BEGIN:VEVENT\r\nUID:{n}\r\nDTSTAMP:20240101T000000Z\r\nDTSTART:{start}\r\nSUMMARY:E{n}\r\nEND:VEVENT\r\n"


def test_a_calendar_file_of_ones_own_is_listed(cli: CommandLine, tmp_path: Path) -> None:
    events = "".join(EVENT.format(n=n, start=f"202401{n + 1:02}T120000Z") for n in range(20))
    (tmp_path / "mine.ics").write_text(CALENDAR.format(events=events))
    ended = cli.run("demo", "--ics", "mine.ics")
    assert ended.code == 0
    assert "20 events imported" in ended.out
    assert "2024-01-01 12:00 UTC" in ended.out
    assert "and 8 more" in ended.out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (CALENDAR.format(events=EVENT.format(n=1, start="soon")).encode(), "DTSTART"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "no calendar"),
    ],
)
def test_a_calendar_file_that_is_refused_exits_1_with_the_place(
    cli: CommandLine, tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "mine.ics").write_bytes(content)
    ended = cli.run("demo", "--ics", "mine.ics")
    assert ended.code == 1
    assert "mine.ics is refused (calendar_invalid)" in ended.sentence
    assert told in ended.sentence


@pytest.mark.parametrize("name", ["missing.ics", "."])
def test_a_calendar_file_that_cannot_be_read_is_usage(cli: CommandLine, name: str) -> None:
    ended = cli.run("demo", "--ics", name)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be read" in ended.sentence
