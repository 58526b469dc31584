from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from grundlag_bus import ToolContext, ToolInterrupt
from grundlag_bus.demo import default_directory, registry

EVENT = {"title": "Lunch", "startsAt": "2026-09-14T12:00:00Z"}


def test_what_the_demo_keeps_is_private_to_its_user(tmp_path: Path) -> None:
    folder = tmp_path / "share" / "demo"
    registry(folder)
    (keys,) = folder.iterdir()
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_registries_of_one_folder_share_their_keys_even_when_made_at_once(tmp_path: Path) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(registry, tmp_path) for _ in range(8)))
    assert {one.keys for one in made} == {made[0].keys}


async def test_a_question_of_one_process_is_answered_in_another(tmp_path: Path) -> None:
    async with registry(tmp_path) as asking, registry(tmp_path) as answering:
        tools = await asking.to_tools()
        event_id = (await tools["calendarCreateEvent"].execute(EVENT, ToolContext()))["eventId"]
        with pytest.raises(ToolInterrupt) as caught:
            await tools["calendarDeleteEvent"].execute({"eventId": event_id}, ToolContext())
        others = await answering.to_tools()
        result = await others["calendarDeleteEvent"].resume(caught.value, {"approved": True}, ToolContext())
        assert result["deleted"]


def test_the_folder_follows_the_platforms_conventions(tmp_path: Path) -> None:
    assert default_directory() == Path("~/.local/share/grundlag-bus-demo").expanduser()
    assert default_directory(tmp_path) == tmp_path / "grundlag-bus-demo"
