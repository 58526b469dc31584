"""An agent run in an operating system process of its own, which a test may kill.

`python -m tests.support.agent_process URL NAMESPACE FILE` reads what is to be done from standard input, as JSON
`{replies, prompt}` or `{replies, answers}`: replies are texts, or lists of calls `[action, input]`. The run is kept in
the file, which is written anew at each event; its result is printed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus import AgentRun, AgentTools, ScriptedModel, connect
from tests.support.agents import calling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def agent_process(
    url: str, namespace: str, file: Path, **wanted: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start it; it is killed in the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.agent_process", url, namespace, str(file)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(wanted).encode())
    process.stdin.close()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def go_on(url: str, namespace: str, file: Path, **wanted: Any) -> dict[str, Any]:
    """Let a process go on with a run until it ends, and return its result."""
    async with agent_process(url, namespace, file, **wanted) as process, asyncio.timeout(60):
        told, _ = await process.communicate()
    result: dict[str, Any] = json.loads(told)
    return result


async def main(url: str, namespace: str, file: Path, wanted: dict[str, Any], kept: Any) -> None:
    replies = [reply if isinstance(reply, str) else calling(*map(tuple, reply)) for reply in wanted["replies"]]
    async with connect(url, namespace=namespace) as bus:
        model, tools = ScriptedModel(replies), AgentTools(await bus.to_tools())
        if "prompt" in wanted:
            run = AgentRun(model, tools, user_id="ada")
            events = run.send(wanted["prompt"])
        else:
            run = AgentRun.from_json(kept, model=model, tools=tools)
            events = run.answer(wanted["answers"])
        async for _ in events:
            keep(run, file)
    pending = {interrupt.interrupt_id: interrupt.message for interrupt in events.result.pending}
    print(json.dumps({"status": events.result.status, "text": events.result.text, "pending": pending}))  # noqa: T201  to its test


def keep(run: AgentRun, file: Path) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(run.to_json()))
    new.rename(file)


if __name__ == "__main__":
    kept_in = Path(sys.argv[3])
    kept_run = json.loads(kept_in.read_text()) if kept_in.exists() else None
    asyncio.run(main(sys.argv[1], sys.argv[2], kept_in, json.load(sys.stdin), kept_run))
