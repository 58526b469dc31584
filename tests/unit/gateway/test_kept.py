from __future__ import annotations

import pytest

from grundlag_bus.gateway import kept
from grundlag_bus.gateway.kept import Ended, KeptReplies


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reply(size: int = 10) -> Ended:
    return Ended("id", 200, b"x" * size, "digest")


def test_a_reply_is_kept_for_a_while() -> None:
    clock = Clock()
    replies = KeptReplies(clock=clock)
    replies.add(("ada", "k"), reply())
    clock.now = kept.KEPT_SECONDS - 1
    assert replies.find(("ada", "k")) == reply()
    assert replies.find(("bob", "k")) is None
    clock.now += 2
    assert replies.find(("ada", "k")) is None


def test_it_is_known_whether_a_reply_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 1)
    clock = Clock()
    replies = KeptReplies(clock=clock)
    assert not replies.is_whole  # those of the process before it
    clock.now = kept.KEPT_SECONDS
    assert replies.is_whole
    replies.add(("ada", "1"), reply())
    clock.now += 10
    replies.add(("ada", "2"), reply())
    assert not replies.is_whole
    clock.now += kept.KEPT_SECONDS - 10
    assert replies.is_whole


def test_there_is_a_bound_for_their_number_and_for_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 3)
    monkeypatch.setattr(kept, "MOST_BYTES", 100)
    replies = KeptReplies(clock=Clock())
    for number in range(5):
        replies.add(("ada", str(number)), reply())
    assert [replies.find(("ada", str(number))) is not None for number in range(5)] == [False, False, True, True, True]
    replies.add(("ada", "large"), reply(90))
    assert replies.find(("ada", "3")) is None
    assert replies.find(("ada", "4")) == reply()
    replies.add(("ada", "huge"), reply(101))
    assert replies.find(("ada", "huge")) is None
    assert replies._bytes == 0


def test_what_is_over_is_let_go_of() -> None:
    clock = Clock()
    replies = KeptReplies(clock=clock)
    replies.add(("ada", "1"), reply())
    clock.now = kept.KEPT_SECONDS + 1
    replies.add(("ada", "2"), reply())
    assert len(replies._kept) == 1
