import os
import stat
import string
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus.errors import ConfigurationError, InterruptExpiredError, NotJsonError, StateInvalidError
from grundlag_bus.providers.seal import MAX_STATE_BYTES, Binding, SealKeys, seal, unseal
from grundlag_bus.schema.codec import digest

NOW = 1_800_000_000.0
LATER = NOW + 60
KEYS = SealKeys.generate()
BINDING = Binding(
    namespace="grundlag",
    provider_id="calendar",
    action_id="deleteEvent",
    user_id="ada",
    input_digest=digest({"eventId": "7"}),
    interrupt_id="0123456789abcdef",
    answer_schema_digest=digest({"type": "object"}),
)
TOKEN = seal(KEYS, {"version": 7}, BINDING, expires_at=LATER)
ALPHABET = string.ascii_letters + string.digits + "-_"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(token: str) -> bytes:
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


@given(json_values)
def test_state_comes_back_as_it_was_sealed(state: Any) -> None:
    assert unseal(KEYS, seal(KEYS, state, BINDING, expires_at=LATER), BINDING, now=NOW) == state


def test_a_token_is_text_for_urls_and_hides_the_state() -> None:
    token = seal(KEYS, {"secret": "swordfish"}, BINDING, expires_at=LATER)
    assert set(token) <= set(ALPHABET)
    assert b"swordfish" not in decode(token)


def test_the_same_state_is_never_sealed_the_same_way_twice() -> None:
    assert seal(KEYS, {"version": 7}, BINDING, expires_at=LATER) != TOKEN


def test_every_changed_bit_is_noticed() -> None:
    raw = decode(TOKEN)
    for place in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(StateInvalidError):
            unseal(KEYS, encode(bytes(changed)), BINDING, now=NOW)


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(ALPHABET + "+/=\n .é\0"))
def test_every_changed_character_is_noticed(place: int, character: str) -> None:
    changed = TOKEN[:place] + character + TOKEN[place + 1 :]
    if changed == TOKEN:
        return
    with pytest.raises(StateInvalidError):
        unseal(KEYS, changed, BINDING, now=NOW)


@pytest.mark.parametrize("state", ["", "a", "ab", "abc"])
def test_bits_that_base64_leaves_over_cannot_be_used_for_a_second_spelling(state: str) -> None:
    token = seal(KEYS, state, BINDING, expires_at=LATER)
    others = {token[:-1] + last for last in ALPHABET} - {token}
    for other in others:
        with pytest.raises(StateInvalidError):
            unseal(KEYS, other, BINDING, now=NOW)


@pytest.mark.parametrize("change", ["{}=", "{}==", "{}\n", " {}", "{}A", "{}AAAA", "A{}"])
def test_anything_added_is_noticed(change: str) -> None:
    with pytest.raises(StateInvalidError):
        unseal(KEYS, change.format(TOKEN), BINDING, now=NOW)


@pytest.mark.parametrize("length", range(len(TOKEN)))
def test_anything_cut_off_is_noticed(length: int) -> None:
    with pytest.raises(StateInvalidError):
        unseal(KEYS, TOKEN[:length], BINDING, now=NOW)


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(StateInvalidError):
        unseal(KEYS, text, BINDING, now=NOW)


@pytest.mark.parametrize("name", [field.name for field in fields(Binding)])
def test_it_opens_for_nothing_else(name: str) -> None:
    for value in ("another", "", None):
        other: dict[str, Any] = {name: value}
        with pytest.raises(StateInvalidError, match="was sealed for another user, action, input or interrupt"):
            unseal(KEYS, TOKEN, replace(BINDING, **other), now=NOW)


def test_bindings_cannot_be_shifted_between_fields() -> None:
    token = seal(KEYS, 1, replace(BINDING, provider_id="ab", action_id="c"), expires_at=LATER)
    with pytest.raises(StateInvalidError):
        unseal(KEYS, token, replace(BINDING, provider_id="a", action_id="bc"), now=NOW)


def test_it_opens_until_the_instant_of_its_expiry() -> None:
    assert unseal(KEYS, TOKEN, BINDING, now=LATER - 0.001) == {"version": 7}
    with pytest.raises(InterruptExpiredError, match="had to be answered before 2027-01-15T08:01:00"):
        unseal(KEYS, TOKEN, BINDING, now=LATER)


def test_expiry_is_told_only_of_what_is_genuine() -> None:
    with pytest.raises(StateInvalidError):
        unseal(KEYS, TOKEN, replace(BINDING, user_id="eve"), now=LATER)


def test_an_unknown_key_may_be_known_to_another_worker() -> None:
    with pytest.raises(StateInvalidError, match=f"lacks the key {KEYS.active}") as caught:
        unseal(SealKeys.generate(), TOKEN, BINDING, now=NOW)
    assert caught.value.retryable


def test_an_unknown_version_may_be_known_to_another_worker() -> None:
    with pytest.raises(StateInvalidError, match="lacks version 2 of sealing") as caught:
        unseal(KEYS, encode(b"\2" + decode(TOKEN)[1:]), BINDING, now=NOW)
    assert caught.value.retryable


def test_a_changed_token_is_not_worth_a_retry() -> None:
    with pytest.raises(StateInvalidError) as caught:
        unseal(KEYS, TOKEN, replace(BINDING, user_id="eve"), now=NOW)
    assert not caught.value.retryable


def test_state_of_64_kib_passes_and_one_byte_more_does_not() -> None:
    fitting = "x" * (MAX_STATE_BYTES - 2)
    assert unseal(KEYS, seal(KEYS, fitting, BINDING, expires_at=LATER), BINDING, now=NOW) == fitting
    with pytest.raises(NotJsonError) as caught:
        seal(KEYS, fitting + "x", BINDING, expires_at=LATER)
    assert caught.value.issue.path == ("state",)
    assert caught.value.issue.code == "too_large"


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": None}) != digest({})
    assert digest([1, 2]) != digest([2, 1])


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_rotate_without_a_token_that_does_not_open() -> None:
    old = SealKeys.generate()
    added = old.add()
    fresh = added.keys[-1].id
    assert added.active == old.active
    promoted = added.promote(fresh)
    assert promoted.active == fresh
    before, after = (seal(keys, 1, BINDING, expires_at=LATER) for keys in (added, promoted))
    for token in (before, after):
        for keys in (added, promoted):
            assert unseal(keys, token, BINDING, now=NOW) == 1
    retired = promoted.retire(old.active)
    assert unseal(retired, after, BINDING, now=NOW) == 1
    with pytest.raises(StateInvalidError, match="lacks the key"):
        unseal(retired, before, BINDING, now=NOW)


def test_the_active_key_cannot_be_retired() -> None:
    with pytest.raises(ConfigurationError, match="promote another one before it is retired"):
        KEYS.retire(KEYS.active)


def test_an_unknown_key_can_be_neither_promoted_nor_retired() -> None:
    for change in (KEYS.promote, KEYS.retire):
        with pytest.raises(ConfigurationError, match=r"There is no key 'typo' in this set \(there are: "):
            change("typo")


def test_keys_are_values() -> None:
    with pytest.raises(FrozenInstanceError):
        KEYS.active = "another"  # type: ignore[misc]  # what is tried here


def test_no_representation_shows_a_secret() -> None:
    (key,) = KEYS.keys
    for shown in (repr(KEYS), str(KEYS), repr(key), str(key), f"{KEYS}"):
        assert repr(key.secret) not in shown
        assert key.secret.hex() not in shown
        assert KEYS.active in shown


def test_keys_come_back_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = SealKeys.generate().add()
    keys.save(file)
    assert SealKeys.load(file) == keys
    assert SealKeys.load(str(file)).keys[0].created_at.tzinfo is not None
    assert set(orjson.loads(file.read_bytes())) == {"active", "keys"}


def test_a_key_file_is_for_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    before = os.umask(0)
    try:
        KEYS.save(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_file_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    KEYS.save(file)
    other = SealKeys.generate()
    with pytest.raises(ConfigurationError, match=r"keys\.json exists"):
        other.save(file)
    assert SealKeys.load(file) == KEYS
    other.save(file, overwrite=True)
    assert SealKeys.load(file) == other
    assert list(tmp_path.iterdir()) == [file]


def test_a_key_file_in_no_folder_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written: No such file or directory"):
        KEYS.save(tmp_path / "missing" / "keys.json")


def test_of_many_that_start_together_one_makes_the_key_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with ThreadPoolExecutor(16) as pool:
        sets = list(pool.map(lambda _: SealKeys.load_or_create(file), range(64)))
    assert set(sets) == {SealKeys.load(file)}
    assert list(tmp_path.iterdir()) == [file]


def test_a_missing_key_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write one with `grundlag-bus keys new"):
        SealKeys.load(tmp_path / "keys.json")


def test_a_key_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        SealKeys.load(tmp_path)


def written(**changes: Any) -> bytes:
    key = {"id": "00" * 8, "createdAt": "2026-01-01T00:00:00+00:00", "secret": "A" * 43 + "="}
    return orjson.dumps({"active": "00" * 8, "keys": [key | changes.pop("key", {})], **changes})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'"text"',
        written(active="11" * 8),
        written(keys=[]),
        written(keys=None),
        written(key={"secret": "c3dvcmRmaXNo"}),
        written(key={"secret": "swordfish"}),
        written(key={"secret": 7}),
        written(key={"id": "zz"}),
        written(key={"createdAt": "yesterday"}),
    ],
)
def test_a_broken_key_file_is_named_and_its_content_is_not_told(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"keys\.json holds no keys") as caught:
        SealKeys.load(file)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__  # no traceback quotes the file
    assert "swordfish" not in str(caught.value)


def test_a_key_file_may_hold_more_than_this_version_knows(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(written(note="for later"))
    assert SealKeys.load(file).active == "00" * 8
