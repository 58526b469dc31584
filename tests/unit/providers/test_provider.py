"""Providers: what is defined under one id."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from grundlag_bus import Action, ActionContext, ConfigurationError, Provider, define_action


class Note(BaseModel):
    text: str


async def _act(note: Note, ctx: ActionContext) -> Note:
    return note


def test_the_decorator_returns_the_action_and_registers_it() -> None:
    provider = Provider("notes", name="Notes")
    action = provider.action("add", name="Add", answer=Note)(_act)
    assert isinstance(action, Action)
    assert provider.actions["add"] is action
    assert (list(provider.actions), len(provider.actions)) == (["add"], 1)


def test_actions_entities_and_events_are_in_the_manifest() -> None:
    provider = Provider("notes", name="Notes", description="Keeps notes.")
    provider.action("add", name="Add")(_act)
    provider.entity("note", Note, name="Note")
    provider.event("added", Note, name="A note was added")
    told = provider.to_manifest().to_json()
    assert (told["id"], told["name"], told["description"]) == ("notes", "Notes", "Keeps notes.")
    assert [action["id"] for action in told["actions"]] == ["add"]
    assert [(each["id"], each["name"], each["schema"]["title"]) for each in told["entities"]] == [
        ("note", "Note", "Note")
    ]
    assert [(each["id"], each["name"]) for each in told["events"]] == [("added", "A note was added")]


def test_lanes_are_those_of_its_actions() -> None:
    provider = Provider("notes", name="Notes")
    assert not provider.lanes
    for number, lane in enumerate(("main", "long", "main")):
        provider.action(f"a{number}", name="A", lane=lane)(_act)
    assert provider.lanes == ("long", "main")


def test_an_action_says_how_often_it_may_be_started_when_its_workers_die() -> None:
    provider = Provider("notes", name="Notes")
    policy = provider.action("add", name="Add", crashes=5, rerun=False)(_act).policy
    assert (policy.crashes, policy.rerun) == (5, False)
    usual = provider.action("usual", name="Add")(_act).policy
    assert (usual.crashes, usual.rerun) == (3, True)
    with pytest.raises(ConfigurationError, match="action none: crashes=0 starts nothing: give at least 1"):
        provider.action("none", name="Add", crashes=0)(_act)


@pytest.mark.parametrize("bad", ["", "1", "a b", "a.b", "ä", "a" * 41, "a\n"])
def test_an_id_is_a_letter_and_39_letters_digits_or_two_signs(bad: str) -> None:
    Provider("a" * 40, name="A")
    Provider("A-b_9", name="A")
    with pytest.raises(ConfigurationError, match="is no valid provider id"):
        Provider(bad, name="A")
    provider = Provider("p", name="P")
    with pytest.raises(ConfigurationError, match="is no valid action id"):
        provider.action(bad, name="A")(_act)
    with pytest.raises(ConfigurationError, match="is no valid entity id"):
        provider.entity(bad, Note, name="A")
    with pytest.raises(ConfigurationError, match="is no valid event id"):
        provider.event(bad, Note, name="A")


def test_an_id_is_taken_once_of_each_kind() -> None:
    provider = Provider("notes", name="Notes")
    provider.action("note", name="A")(_act)
    provider.entity("note", Note, name="A")
    provider.event("note", Note, name="A")
    with pytest.raises(ConfigurationError) as raised:
        provider.actions.register(define_action(id="note", name="B", input=Note, output=Note, execute=_act))
    assert str(raised.value) == "Provider notes defines the action 'note' twice: rename one of the two."
    with pytest.raises(ConfigurationError, match="defines the entity 'note' twice"):
        provider.entity("note", Note, name="A")
    with pytest.raises(ConfigurationError, match="defines the event 'note' twice"):
        provider.event("note", Note, name="A")


def test_a_model_without_a_json_schema_names_its_owner() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Provider("notes", name="Notes").entity("note", Provider, name="A")
    assert str(raised.value).startswith("entity note of provider notes uses Provider, of which no JSON Schema can be")
