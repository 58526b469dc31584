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
    assert not replies.is_whole("ada")  # those of the process before it
    clock.now = kept.KEPT_SECONDS
    assert replies.is_whole("ada")
    replies.add(("ada", "1"), reply())
    clock.now += 10
    replies.add(("ada", "2"), reply())
    assert not replies.is_whole("ada")
    clock.now += kept.KEPT_SECONDS - 10
    assert replies.is_whole("ada")


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


@pytest.mark.parametrize("bound", ["MOST_KEPT", "MOST_BYTES"])
def test_no_user_pushes_out_what_another_has_kept(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, bound, {"MOST_KEPT": 10, "MOST_BYTES": 100}[bound])
    clock = Clock()
    replies = KeptReplies(clock=clock)
    clock.now = kept.KEPT_SECONDS
    others = [("bob", "1"), ("bob", "2"), (None, "1")]
    for key in others:
        replies.add(key, reply())
    for number in range(50):
        clock.now += 0.1
        replies.add(("ada", str(number)), reply())
    assert [replies.find(key) for key in others] == [reply()] * 3
    assert [number for number in range(50) if replies.find(("ada", str(number)))] == [*range(43, 50)]
    assert (replies.is_whole("ada"), replies.is_whole("bob"), replies.is_whole(None)) == (False, True, True)


def test_who_comes_late_has_an_even_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 10)
    replies = KeptReplies(clock=Clock())
    for user_id in ("ada", "bob"):
        for number in range(20):
            replies.add((user_id, str(number)), reply())
    assert [
        sum(replies.find((user_id, str(number))) is not None for number in range(20)) for user_id in ("ada", "bob")
    ] == [5, 5]


def test_what_was_let_go_of_early_is_remembered_for_as_long_as_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 2)
    clock = Clock()
    replies = KeptReplies(clock=clock)
    for number in range(100):
        replies.add((f"user{number}", "1"), reply())
    clock.now = kept.KEPT_SECONDS
    assert all(replies.is_whole(f"user{number}") for number in range(100))
    replies.add(("ada", "1"), reply())
    assert len(replies._lacks_until) == 0
    assert list(replies._shares) == ["ada"]
