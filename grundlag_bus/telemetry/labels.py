"""What may stand in a label of a metric: a bounded number of texts, whoever chooses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

OTHER = "other"
"""Stands for whatever is one too many."""

CODES = frozenset(
    {
        "action_unknown",
        "answer_conflict",
        "answer_invalid",
        "attempts_exhausted",
        "call_id_reused",
        "cancelled",
        "deadline_exceeded",
        "forbidden",
        "input_invalid",
        "internal",
        "interrupt_expired",
        "nested_interrupt",
        "outcome_unknown",
        "output_invalid",
        "overloaded",
        "payload_too_large",
        "provider_unavailable",
        "rejected",
        "state_invalid",
        "unauthenticated",
    }
)
"""The codes of failures that this package gives; an action may have others of its own."""


class _Offered(Protocol):
    @property
    def actions(self) -> Collection[str]: ...


class Offers(Protocol):
    """What is known of a registry here: its providers by id, each with the ids of its actions."""

    @property
    def providers(self) -> Mapping[str, _Offered]: ...


class Actions:
    """The labels of provider and action: those that a registry knows, else `other`."""

    def __init__(self, offers: Offers | None) -> None:
        self._offers = offers

    def of(self, provider_id: str, action_id: str) -> tuple[str, str]:
        offered = None if self._offers is None else self._offers.providers.get(provider_id)
        if offered is None:
            return OTHER, OTHER
        return provider_id, action_id if action_id in offered.actions else OTHER


class Bounded:
    """The labels of what is known beforehand, and of the first `most` texts that are not; then `other`."""

    def __init__(self, known: Iterable[str], *, most: int) -> None:
        self._labels = {text: text for text in known}
        self._room = most

    def of(self, text: str) -> str:
        label = self._labels.get(text)
        if label is None:
            if self._room == 0:
                return OTHER
            self._room -= 1
            label = self._labels[text] = text
        return label
