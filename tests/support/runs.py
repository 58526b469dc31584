"""What tests of runs wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grundlag_bus import Run, Runs

WITHIN = 60


async def ended(runs: Runs, run: Run) -> Run:
    """Wait for the end of a run."""
    done = await runs.wait(run.run_id, timeout=WITHIN)
    assert done.ended, done
    return done


async def value(runs: Runs, run: Run) -> Any:
    """Wait for the value of a run that completes."""
    done = await ended(runs, run)
    assert done.status == "completed", done
    return done.value


async def failure(runs: Runs, run: Run) -> tuple[str, str]:
    """Wait for a run that fails, and return its code and message."""
    done = await ended(runs, run)
    assert done.error is not None, done
    return done.error["code"], done.error["message"]


async def asked(runs: Runs, run: Run) -> dict[str, str]:
    """Wait until a run waits for people, and return what it asks: ids by what is to be deleted."""
    waiting = await runs.wait(run.run_id, timeout=WITHIN, for_people=True)
    assert waiting.status == "waiting", waiting
    return {each.data["id"]: each.interrupt_id for each in await runs.pending(run_id=run.run_id)}


async def question(runs: Runs, run: Run, about: str) -> str:
    """Wait until a run asks about something, whatever else it does, and return the id."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WITHIN
    while loop.time() < end:
        for each in await runs.pending(run_id=run.run_id):
            if each.data["id"] == about:
                return each.interrupt_id
        await asyncio.sleep(0.02)
    raise AssertionError(f"Nothing was asked about {about!r} within {WITHIN} s.")


async def entries(runs: Runs, run: Run) -> list[dict[str, Any]]:
    """Return the journal of a run that ends."""
    return [dict(entry.entry) async for entry in runs.events(run.run_id)]
