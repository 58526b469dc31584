"""Signed tokens: only of the issuer, for the audience, in time, by a published key and an asymmetric algorithm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from grundlag_bus import ConfigurationError, JwtTokens, UnauthenticatedError
from grundlag_bus.gateway import key_set
from grundlag_bus.gateway.key_set import KeySet
from grundlag_bus.gateway.refusing import Refused

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
AUDIENCE, ISSUER = "us", "https://issuer.example/"


def jwk(key: Any, key_id: str, **more: Any) -> dict[str, Any]:
    public = key.public_key()
    algorithm = (
        jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    )
    return {**json.loads(algorithm.to_jwk(public)), "kid": key_id, **more}


def write(file: Path, *keys: dict[str, Any]) -> str:
    file.write_text(json.dumps({"keys": keys}))
    return str(file)


def claims(**changed: Any) -> dict[str, Any]:
    told = {"sub": "ada", "aud": AUDIENCE, "iss": ISSUER, "exp": time.time() + 60, **changed}
    return {name: value for name, value in told.items() if value is not None}


def token(key: Any = RSA, *, key_id: str | None = "rsa", algorithm: str = "RS256", **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, algorithm, headers={} if key_id is None else {"kid": key_id})


@pytest.fixture
def tokens(tmp_path: Path) -> JwtTokens:
    jwks = write(
        tmp_path / "jwks.json",
        jwk(RSA, "rsa"),
        jwk(EC, "ec", alg="ES256"),
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"},
    )
    return JwtTokens(jwks, audience=AUDIENCE, issuer=ISSUER)


async def test_the_subject_is_the_user(tokens: JwtTokens) -> None:
    assert await tokens.user_id(token()) == "ada"
    assert await tokens.user_id(token(EC, key_id="ec", algorithm="ES256", sub="bob")) == "bob"
    assert await tokens.user_id(token(aud=["them", AUDIENCE])) == "ada"
    assert await tokens.user_id(token(exp=time.time() - 5)) == "ada"  # clocks differ a little


PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def part(data: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


def signed_by_hand(algorithm: str, secret: bytes, key_id: str = "rsa") -> str:
    """Sign with what everybody knows: the library would refuse to."""
    text = f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': key_id})}.{part(claims())}"
    signature = hmac.digest(secret, text.encode(), hashlib.sha256) if algorithm == "HS256" else b""
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "given",
    [
        token(OTHER),
        token(EC, key_id="rsa", algorithm="ES256"),
        token(RSA, key_id="ec"),
        token(key_id="unknown"),
        token(key_id=None),
        token(aud="them"),
        token(aud=None),
        token(iss="https://other.example/"),
        token(iss=None),
        token(exp=time.time() - 60),
        token(exp=None),
        token(nbf=time.time() + 3600),
        token(sub=None),
        token(sub=""),
        token(sub="a\nb"),
        token(sub="a" * 257),
        token()[:-4] + "AAAA",
        token().rpartition(".")[0] + ".",
        signed_by_hand("none", b""),
        signed_by_hand("None", b""),
        signed_by_hand("HS256", PEM),
        signed_by_hand("HS256", b"secret-secret-secret-secret-secret", "oct"),
        "a.b.c",
        "..",
        "nothing",
        "\ud800",
    ],
)
async def test_any_other_token_is_nobody_s(tokens: JwtTokens, given: str) -> None:
    with pytest.raises(UnauthenticatedError) as raised:
        await tokens.user_id(given)
    assert given not in str(raised.value)


async def test_a_token_of_another_algorithm_than_is_asked_for_is_nobody_s(tmp_path: Path) -> None:
    tokens = JwtTokens(write(tmp_path / "jwks", jwk(RSA, "rsa")), audience="us", issuer=ISSUER, algorithms=["ES256"])
    with pytest.raises(UnauthenticatedError, match="algorithm"):
        await tokens.user_id(token())


@pytest.mark.parametrize("algorithms", [["HS256"], ["none"], [], ["RS256", "HS512"]])
def test_a_symmetric_algorithm_cannot_be_asked_for(tmp_path: Path, algorithms: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="no other algorithm"):
        JwtTokens(write(tmp_path / "jwks"), audience="us", issuer=ISSUER, algorithms=algorithms)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys":1}', '{"keys":[1]}', '{"keys":[]}'])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "jwks").write_text(text)
    with pytest.raises(ConfigurationError, match="JWKS"):
        KeySet(str(tmp_path / "jwks"))


# --- keys that change -------------------------------------------------------------------------------------------------


class Published:
    """A JWKS that is fetched, and can be away."""

    def __init__(self, keys: KeySet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[dict[str, Any]] = [jwk(RSA, "one")]
        self.fetched = 0
        self.away = False
        monkeypatch.setattr(keys, "_fetch", self._fetch)

    def _fetch(self) -> bytes:
        self.fetched += 1
        if self.away:
            raise ConfigurationError("it is away")
        return json.dumps({"keys": self.keys}).encode()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(clock: Clock) -> KeySet:
    return KeySet("https://issuer.example/keys", clock=clock)


@pytest.fixture
def published(keys: KeySet, monkeypatch: pytest.MonkeyPatch) -> Published:
    return Published(keys, monkeypatch)


async def test_keys_are_fetched_once_and_again_when_they_may_have_changed(
    keys: KeySet, published: Published, clock: Clock
) -> None:
    for _ in range(3):
        assert await keys.find("one") is not None
    assert published.fetched == 1
    clock.now += key_set.FRESH_SECONDS + 1
    published.keys = [jwk(OTHER, "two")]
    assert await keys.find("one") is None
    assert await keys.find("two") is not None


async def test_a_new_key_is_known_when_a_token_names_it(keys: KeySet, published: Published, clock: Clock) -> None:
    assert await keys.find("one") is not None
    published.keys.append(jwk(OTHER, "two"))
    clock.now += key_set.PAUSE_SECONDS + 1
    assert await keys.find("two") is not None


async def test_unknown_keys_cost_one_look_in_a_while(keys: KeySet, published: Published) -> None:
    for number in range(50):
        assert await keys.find(f"forged {number}") is None
    assert published.fetched == 1


async def test_known_keys_are_used_while_the_others_cannot_be_had(
    keys: KeySet, published: Published, clock: Clock
) -> None:
    assert await keys.find("one") is not None
    published.away = True
    clock.now += key_set.FRESH_SECONDS + 1
    assert await keys.find("one") is not None
    clock.now += key_set.STALE_SECONDS
    with pytest.raises(Refused) as raised:
        await keys.find("one")
    assert raised.value.status == 503


async def test_nothing_is_known_while_no_keys_could_be_had(keys: KeySet, published: Published) -> None:
    published.away = True
    with pytest.raises(Refused):
        await keys.find("one")


async def test_keys_come_from_their_address(tmp_path: Path) -> None:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/jwks")
                self.end_headers()
                return
            body = json.dumps({"keys": [jwk(RSA, "one")]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            base = f"http://127.0.0.1:{server.server_port}"
            assert await KeySet(f"{base}/jwks").find("one") is not None
            with pytest.raises(Refused):
                await KeySet(f"{base}/moved").find("one")
        finally:
            server.shutdown()
            thread.join()
