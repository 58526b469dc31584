"""Where a broker's root is installed from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.rabbitmq.roots import BrokerUnavailableError, apt_mirror, installed_broker


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_the_mirror_is_read_from_deb822_sources(apt: Path) -> None:
    (apt / "sources.list.d/debian.sources").write_text(
        "Types: deb\n# a comment\nURIs: http://security.example/debian-security\nSuites: bookworm-security\n"
        "Components: main\n\n"
        "Types: deb deb-src\nURIs:\n http://mirror.example/debian\nSuites: bookworm\n bookworm-updates\n"
        "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )

    assert apt_mirror(apt, "bookworm") == "http://mirror.example/debian"


def test_the_mirror_is_read_from_one_line_sources(apt: Path) -> None:
    (apt / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb-src http://source.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/some.gpg] http://mirror.example/debian bookworm main\n"
    )

    assert apt_mirror(apt, "bookworm") == "http://mirror.example/debian"


def test_other_archives_are_passed_over(apt: Path) -> None:
    (apt / "sources.list.d/a-vendor.list").write_text("deb https://vendor.example/apt cloud-bookworm main\n")
    (apt / "sources.list.d/another.sources").write_text(
        "Types: deb\nURIs: https://vendor.example/node\nSuites: nodistro\nComponents: main\n"
    )
    (apt / "sources.list.d/off.sources").write_text(
        "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n"
    )
    (apt / "sources.list.d/z-debian.list").write_text("deb http://mirror.example/debian bookworm main\n")

    assert apt_mirror(apt, "bookworm") == "http://mirror.example/debian"


def test_a_list_of_mirrors_is_followed(apt: Path) -> None:
    mirrors = apt / "debian.list"
    mirrors.write_text("# chosen by the cloud\nhttp://mirror.example/debian priority:1\nhttp://other.example/debian\n")
    (apt / "sources.list").write_text(f"deb mirror+file://{mirrors} trixie main\n")

    assert apt_mirror(apt, "trixie") == "http://mirror.example/debian"


def test_without_an_archive_it_says_what_to_do(apt: Path) -> None:
    with pytest.raises(BrokerUnavailableError, match="GRUNDLAG_TEST_AMQP_URL"):
        apt_mirror(apt, "bookworm")


def test_an_installed_broker_of_another_version_is_not_taken() -> None:
    assert installed_broker("0.1") is None
