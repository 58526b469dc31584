# task: For each of three teams create two events at the same time and report the ids per team; a team that fails must not stop the others.
# expects: {"red": 2, "green": "quota_exceeded", "blue": 2}
import asyncio
from typing import Any


async def create_for(team: str, hour: int) -> dict[str, Any]:
    if team == "green":
        await demoFail("quota_exceeded", f"Team {team} may not create more events")
    ids = await asyncio.gather(
        calendarCreateEvent(title=f"{team} standup", startsAt=f"2026-09-14T{hour:02d}:00:00+02:00"),
        calendarCreateEvent(title=f"{team} retro", startsAt=f"2026-09-18T{hour:02d}:00:00+02:00"),
    )
    return {"team": team, "ids": [i["eventId"] for i in ids]}


async def safely(team: str, hour: int) -> dict[str, Any]:
    try:
        return await create_for(team, hour)
    except RuntimeError as exc:
        code, message = str(exc).split(": ", maxsplit=1)
        print(f"{team}: {message}")
        return {"team": team, "error": code}


async def main():
    teams = ["red", "green", "blue"]
    results = await asyncio.gather(*[safely(t, 8 + i) for i, t in enumerate(teams)])
    return {r["team"]: r["error"] if "error" in r else len(r["ids"]) for r in results}


await main()
