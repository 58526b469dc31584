"""Items of a conversation, in a plain list."""

from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus import Item, ItemStore, NotJsonError
from grundlag_bus.providers.context import ActionItems


def store_of(*items: tuple[str, Any]) -> ItemStore:
    store = ItemStore()
    for kind, data in items:
        store.emit(kind, data)
    return store


def test_items_are_listed_in_order_of_one_type_or_all() -> None:
    store = store_of(("note", 1), ("place", 2), ("note", 3))
    assert [item.data for item in store.list()] == [1, 2, 3]
    assert [item.data for item in store.list("note")] == [1, 3]
    assert [item.data for item in store] == [1, 2, 3]
    assert len(store) == 3


def test_the_latest_is_the_newest_of_its_type() -> None:
    store = store_of(("note", 1), ("note", 2), ("place", 3))
    latest = store.latest("note")
    assert latest is not None
    assert latest.data == 2
    assert store.latest("nothing") is None


def test_an_emitted_item_holds_a_copy_of_plain_data() -> None:
    data = {"numbers": [1, (2, 3)]}
    store = ItemStore()
    item = store.emit("note", data)
    data["numbers"].append(4)
    assert item.data == {"numbers": [1, [2, 3]]}
    assert store.list() == [item]
    with pytest.raises(NotJsonError):
        store.emit("note", {1, 2})
    assert len(store) == 1


def test_each_item_has_an_id_of_its_own() -> None:
    assert len({item.id for item in store_of(*[("note", 1)] * 100)}) == 100


def test_folding_takes_over_what_is_new_in_order() -> None:
    here, there = store_of(("note", 1)), store_of(("note", 2), ("note", 3))
    here.fold(there)
    here.fold(there)
    assert [item.data for item in here] == [1, 2, 3]


def test_listing_gives_a_list_of_the_callers_own() -> None:
    store = store_of(("note", 1))
    store.list().clear()
    assert len(store) == 1
    items = store.list()
    ItemStore(items).emit("note", 2)
    assert len(items) == 1


def test_an_actions_items_tell_apart_what_it_emitted() -> None:
    given = store_of(("note", 1)).list()
    items = ActionItems(given)
    items.emit("note", 2)
    assert [item.data for item in items.list()] == [1, 2]
    assert [item.data for item in items.emitted] == [2]
    assert isinstance(items.latest("note"), Item)
