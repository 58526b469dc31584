"""Sealed state: what an interrupted action keeps travels with the caller, who can neither read nor change it.

A token is base64url, without padding, of

    version (1 byte)   key id (8)   expires at (8, Unix seconds)   nonce (12)   AES-256-GCM of the state as JSON

The part in the clear and the `Binding` are authenticated with the state, so that a token opens only unchanged, for the
same call, and until it expires. The worker that opens it reads the key and the expiry from the token itself.

Keys rotate in four steps, each deployed to all workers before the next: `add` a key (workers can open with it),
`promote` it (they seal with it), wait for the longest expiry, `retire` the old one.
"""

from __future__ import annotations

import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from grundlag_bus.errors import ConfigurationError, InterruptExpiredError, Issue, NotJsonError, StateInvalidError
from grundlag_bus.schema.codec import canonical

MAX_STATE_BYTES = 64 * 1024

_VERSION = 1
_HEADER = struct.Struct(">B8sd12s")
_ID_BYTES, _NONCE_BYTES, _SECRET_BYTES = 8, 12, 32


# --- keys -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key; its id travels in every token sealed with it."""

    id: str
    created_at: datetime
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _SECRET_BYTES or len(bytes.fromhex(self.id)) != _ID_BYTES:
            raise ValueError(f"a key has an id of {_ID_BYTES} bytes as hex and a secret of {_SECRET_BYTES} bytes")

    @classmethod
    def generate(cls) -> Self:
        return cls(os.urandom(_ID_BYTES).hex(), datetime.now(UTC).replace(microsecond=0), os.urandom(_SECRET_BYTES))


@dataclass(frozen=True, slots=True)
class SealKeys:
    """The keys that all workers of a provider share: any of them opens, the active one seals."""

    keys: tuple[SealKey, ...]
    active: str

    def __post_init__(self) -> None:
        ids = [key.id for key in self.keys]
        if len(set(ids)) != len(ids) or self.active not in ids:
            raise ValueError("key ids are unique, and one of them is active")

    @classmethod
    def generate(cls) -> Self:
        """Make a new set with one key."""
        key = SealKey.generate()
        return cls((key,), key.id)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Self:
        """Read the set that `save` wrote. Raises ConfigurationError."""
        try:
            data = orjson.loads(Path(file).read_bytes())
            keys = tuple(
                SealKey(
                    key["id"],
                    datetime.fromisoformat(key["createdAt"]),
                    urlsafe_b64decode(key["secret"].encode("ascii")),
                )
                for key in data["keys"]
            )
            return cls(keys, data["active"])
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"There is no key file {os.fspath(file)}: write one with `grundlag-bus keys new {os.fspath(file)}`."
            ) from error
        except OSError as error:
            raise ConfigurationError(f"The key file {os.fspath(file)} cannot be read: {error.strerror}.") from error
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ConfigurationError(
                f"The file {os.fspath(file)} holds no keys of this version: "
                "give the file that `grundlag-bus keys new` wrote, unchanged."
            ) from None  # the cause may quote a secret

    @classmethod
    def load_or_create(cls, file: str | os.PathLike[str]) -> Self:
        """Read the set in a file, or write a new one there; of several processes that start together one writes."""
        if not Path(file).exists():
            _write(cls.generate(), Path(file), overwrite=False)
        return cls.load(file)

    def save(self, file: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the set for its owner's eyes only, at once or not at all. Raises ConfigurationError."""
        if not _write(self, Path(file), overwrite=overwrite):
            raise ConfigurationError(
                f"The key file {os.fspath(file)} exists, and state sealed with its keys opens with no others: "
                "choose another name, or ask for it to be overwritten."
            )

    def add(self) -> SealKeys:
        """Add a new key that opens and does not seal yet; it is the last of `keys`."""
        return replace(self, keys=(*self.keys, SealKey.generate()))

    def promote(self, key_id: str) -> SealKeys:
        """Let a key seal from now on."""
        return replace(self, active=self._known(key_id).id)

    def retire(self, key_id: str) -> SealKeys:
        """Remove a key; what it sealed does not open any more."""
        if self._known(key_id).id == self.active:
            raise ConfigurationError(f"The key {key_id} is active: promote another one before it is retired.")
        return replace(self, keys=tuple(key for key in self.keys if key.id != key_id))

    @property
    def sealing(self) -> SealKey:
        """The active key."""
        return self._known(self.active)

    def find(self, key_id: str) -> SealKey | None:
        """Return a key, or None."""
        return next((key for key in self.keys if key.id == key_id), None)

    def _known(self, key_id: str) -> SealKey:
        key = self.find(key_id)
        if key is None:
            known = ", ".join(known.id for known in self.keys)
            raise ConfigurationError(f"There is no key {key_id!r} in this set (there are: {known}).")
        return key


def _write(keys: SealKeys, target: Path, *, overwrite: bool) -> bool:
    """Write a key file; tell whether it was written, which it is not where one exists and is not to be overwritten."""
    draft = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    data = {
        "active": keys.active,
        "keys": [
            {"id": key.id, "createdAt": key.created_at.isoformat(), "secret": urlsafe_b64encode(key.secret).decode()}
            for key in keys.keys
        ],
    }
    try:
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
                stream.flush()
                os.fsync(stream.fileno())
            if overwrite:
                draft.replace(target)
            else:
                target.hardlink_to(draft)  # unlike a rename, it fails where a file exists
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigurationError(
            f"The key file {target} cannot be written: {error.strerror}; give a file in a folder that exists."
        ) from error
    return True


# --- sealing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Binding:
    """What sealed state belongs to: it opens for exactly this."""

    namespace: str
    provider_id: str
    action_id: str
    user_id: str | None
    input_digest: str
    interrupt_id: str
    answer_schema_digest: str | None


def seal(keys: SealKeys, state: Any, binding: Binding, *, expires_at: float, limit: int = MAX_STATE_BYTES) -> str:
    """Seal plain data as a token. Raises NotJsonError when it is larger than `limit` bytes as JSON."""
    text = orjson.dumps(state)
    if len(text) > limit:
        raise NotJsonError(
            Issue(
                ("state",),
                "too_large",
                f"the state takes {len(text)} bytes as JSON and the limit is {limit}: "
                "keep a reference to what it stands for",
            )
        )
    key = keys.sealing
    nonce = os.urandom(_NONCE_BYTES)
    header = _HEADER.pack(_VERSION, bytes.fromhex(key.id), expires_at, nonce)
    sealed = AESGCM(key.secret).encrypt(nonce, text, header + canonical(binding))
    return _to_text(header + sealed)


def unseal(keys: SealKeys, token: str, binding: Binding, *, now: float) -> Any:
    """Open a token and return the state.

    Raises StateInvalidError when it was changed, or sealed for something else or with an unknown key (which another
    worker may know), and InterruptExpiredError when it opens too late.
    """
    raw = _from_text(token)
    version, key_id, expires_at, nonce = _HEADER.unpack_from(raw)
    key = keys.find(key_id.hex())
    if version != _VERSION or key is None:
        lacks = f"the key {key_id.hex()}" if version == _VERSION else f"version {version} of sealing"
        raise StateInvalidError(
            f"This worker lacks {lacks}, with which the state of the resumption was sealed: "
            "give all workers of the provider the same key file and release.",
            retryable=True,
        )
    header, sealed = raw[: _HEADER.size], raw[_HEADER.size :]
    try:
        text = AESGCM(key.secret).decrypt(nonce, sealed, header + canonical(binding))
    except InvalidTag:
        raise _state_invalid() from None
    if now >= expires_at:
        when = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds")
        raise InterruptExpiredError(f"The interrupt had to be answered before {when}: call again without the answer.")
    return orjson.loads(text)


def _to_text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _from_text(token: str) -> bytes:
    """Decode a token, and refuse all but the one spelling of its bytes."""
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        raise _state_invalid() from None
    if len(raw) < _HEADER.size or _to_text(raw) != token:
        raise _state_invalid()
    return raw


def _state_invalid() -> StateInvalidError:
    return StateInvalidError(
        "The state of the resumption was changed, or was sealed for another user, action, input or interrupt: "
        "resume with the same input, and the interrupt's id and state as they came."
    )
