"""Where the PostgreSQL of the tests comes from, and what is said where none can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.postgresql.programs import PostgresUnavailableError, Programs, installed_programs, unpacked_programs
from tests.support.postgres import obtain


def program(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def nothing_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_programs_on_path_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin/initdb").parent))
    found = installed_programs(tmp_path)
    assert found == Programs(tmp_path / "bin")
    assert (found.is_system, found.environment) == (True, {})


def test_of_several_installed_versions_the_newest_is_used(tmp_path: Path, nothing_on_path: None) -> None:
    for version in ("9", "15", "17"):
        program(tmp_path / f"usr/lib/postgresql/{version}/bin/initdb")
    assert installed_programs(tmp_path) == Programs(tmp_path / "usr/lib/postgresql/17/bin")
    assert installed_programs(tmp_path / "usr") is None


def test_unpacked_programs_bring_their_libraries_wherever_they_are_copied(
    tmp_path: Path, nothing_on_path: None
) -> None:
    root = tmp_path / "cache/grundlag-bus/postgresql"
    program(root / "usr/lib/postgresql/15/bin/initdb")
    program(root / "usr/lib/x86_64-linux-gnu/libpq.so.5")
    found = unpacked_programs()
    assert found.environment == {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}
    copied = found.copied_to(tmp_path / "copy")
    assert (copied.binaries / "initdb").exists()
    assert copied.environment == {"LD_LIBRARY_PATH": str(tmp_path / "copy/usr/lib/x86_64-linux-gnu")}
    assert not copied.is_system


def test_without_apt_it_says_what_to_do(nothing_on_path: None) -> None:
    with pytest.raises(PostgresUnavailableError, match=r"needs apt: start Docker, install PostgreSQL .*GRUNDLAG_TEST_"):
        unpacked_programs()


def test_a_folder_without_programs_is_named(tmp_path: Path, nothing_on_path: None) -> None:
    (tmp_path / "cache/grundlag-bus/postgresql").mkdir(parents=True)
    with pytest.raises(PostgresUnavailableError, match=r"grundlag-bus/postgresql holds no PostgreSQL: remove"):
        unpacked_programs()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", r"is no address: write postgresql://user:password@host:5432/postgres\."),
        ("postgresql://ada:secret@127.0.0.1:1/x", r"No server answers at 127\.0\.0\.1:1 .*: mend GRUNDLAG_TEST_POST"),
    ],
)
def test_a_given_server_that_does_not_answer_is_named_without_its_password(
    url: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRUNDLAG_TEST_POSTGRES_URL", url)
    with pytest.raises(PostgresUnavailableError, match=told) as refused, obtain():
        pass
    assert "secret" not in str(refused.value)
