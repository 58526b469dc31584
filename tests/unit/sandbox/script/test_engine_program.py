from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grundlag_bus import Limits, Sandbox, ScriptLimitError
from grundlag_bus.sandbox.script import engine_program
from grundlag_bus.sandbox.script.engine_program import launcher


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    engine_program._launcher.cache_clear()
    engine_program._working.cache_clear()
    yield
    engine_program._launcher.cache_clear()
    engine_program._working.cache_clear()


def test_the_same_limits_have_the_same_launcher() -> None:
    assert launcher(Limits()) == launcher(Limits(output=1))
    assert launcher(Limits()) != launcher(Limits(time=1))


def test_a_launcher_that_somebody_removed_is_written_again() -> None:
    shutil.rmtree(launcher(Limits()).parent)
    assert launcher(Limits()).exists()


async def test_scripts_run_where_the_system_has_nothing_to_bound_them_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert " -- " not in launcher(Limits()).read_text()
    assert (await Sandbox({}).run("1 + 1")).value == 2


def test_what_does_not_work_here_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = tmp_path / "unshare"
    forbidden.write_text("#!/bin/sh\nexit 1\n")
    forbidden.chmod(0o700)
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: str(forbidden) if name == "unshare" else which(name))
    text = launcher(Limits()).read_text()
    assert "unshare" not in text
    assert "--pdeathsig" in text


async def test_an_engine_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "none"))
    with pytest.raises(ScriptLimitError) as raised:
        await Sandbox({}).run("1 + 1")
    assert raised.value.limit == "engine"
