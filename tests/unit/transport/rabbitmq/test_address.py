"""Where a broker is: read from a URL or given in parts, and never shown with its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport.rabbitmq import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("amqp://localhost", Address()),
        ("amqp://localhost/", Address()),
        ("amqp://localhost/%2F", Address()),
        ("amqp://ada:secret@broker:5700/sales", Address("broker", 5700, "ada", "secret", "sales")),
        ("amqp://ada:p%40ss%2Fw@broker/a%2Fb", Address("broker", None, "ada", "p@ss/w", "a/b")),
        ("amqp://ada:p@ss@broker/a/b", Address("broker", None, "ada", "p@ss", "a/b")),
        ("amqp://ada:@broker", Address("broker", None, "ada", "")),
        ("amqp://[::1]:5700", Address("::1", 5700)),
        ("amqp://ada@broker?password_file=/run/secret", Address("broker", user="ada", password_file="/run/secret")),
        ("amqps://broker", Address("broker", tls=True)),
        ("amqps://broker?verify=verify_none", Address("broker", tls=True, verify=False)),
        (
            "amqps://broker?cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&verify=verify_peer",
            Address("broker", tls=True, ca_file="/ca.pem", certificate_file="/c.pem", key_file="/k.pem"),
        ),
    ],
)
def test_a_url_is_read_into_parts(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:5672",
        "http://ada:hunter2@broker",
        "amqp://ada:hunt/hunter2@broker/vhost",
        "amqp://ada:hunt#hunter2@broker/vhost",
        "amqp://ada:hunter2@broker:port/",
        "amqp://ada:hunter2@broker:99999/",
        "amqp://ada:hunter2@/",
        "amqp://ada:hunter2@broker/?heartbeat=5",
        "amqps://ada:hunter2@broker/?verify=no",
        "amqp://[ada:hunter2@broker",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Address.parse(url)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(), "amqp://guest@localhost:5672/%2F"),
        (Address("::1", user="a@b", password="hunter2", vhost="x/y"), "amqp://a%40b@[::1]:5672/x%2Fy"),
        (Address("broker", tls=True), "amqps://guest@broker:5671/%2F"),
    ],
)
def test_its_texts_hold_no_password(address: Address, text: str) -> None:
    assert str(address) == text
    assert "password=" not in repr(address)
    assert "hunter2" not in repr(address) + str(address) + f"{address!s}"


def test_a_certificate_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ca_file"):
        Address(tls=True, ca_file=str(tmp_path / "missing.pem")).ssl_context()
    (tmp_path / "broken.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="certificate_file"):
        Address(tls=True, certificate_file=str(tmp_path / "broken.pem")).ssl_context()


def test_plaintext_needs_no_context() -> None:
    assert Address().ssl_context() is None


def test_a_password_and_a_file_for_it_are_refused_together() -> None:
    with pytest.raises(ConfigurationError, match="give one of them") as raised:
        Address.parse("amqp://ada:secret@broker?password_file=/run/secret")
    assert "secret@" not in str(raised.value)


def test_an_address_whose_user_is_not_known_yet_shows_none() -> None:
    assert str(Address("broker", credentials=lambda: ("ada", "secret"))) == "amqp://broker:5672/%2F"
