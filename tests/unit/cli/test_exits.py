from __future__ import annotations

import pytest
import typer

from grundlag_bus.cli.exits import Exit, printable, tell
from grundlag_bus.errors import BusUnreachableError, ConfigurationError, GrundlagError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), Exit.USAGE),
        (typer.BadParameter("x"), Exit.USAGE),
        (BusUnreachableError("x"), Exit.UNREACHABLE),
        (GrundlagError("x"), Exit.FAILED),
        (RuntimeError("x"), Exit.FAILED),
    ],
)
def test_the_kind_of_an_error_gives_the_exit_code_and_one_sentence(
    error: Exception, code: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell(error, debug=False, arguments=[]) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_traceback_holds_no_password(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRUNDLAG_URL", "amqp://u:fr%40mEnv@host")
    error = RuntimeError("frOmLine fr%40mEnv fr@mEnv")
    tell(error, debug=True, arguments=["call", "--url=amqp://u:frOmLine@host", "http://[broken"])
    shown = capsys.readouterr().err
    assert "RuntimeError: *** *** ***" in shown
    assert "frOmLine" not in shown
    assert "fr@mEnv" not in shown


def test_control_characters_are_shown_and_not_sent() -> None:
    assert printable("a\x1b[2J\x07\x9b1m\u202eb\nç 日") == "a\\x1b[2J\\x07\\x9b1m\\u202eb\nç 日"
