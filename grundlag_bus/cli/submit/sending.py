"""What `submit` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.call import check_name, print_response, read_input
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_host
from grundlag_bus.errors import CallError
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools import ToolContext

if TYPE_CHECKING:
    from grundlag_bus.cli.source import Source


def send(  # noqa: PLR0913  the command's options
    source: Source,
    function: str,
    text: str,
    *,
    delay: float,
    user: str | None,
    timeout: float | None,
    as_json: bool,
    level: str,
) -> int:
    """Submit a call and print its id, or why it cannot be sent. Raises ConfigurationError, TransportError."""
    refuse_host(source.url)  # it would cancel the call when this ends
    value = read_input(text)

    async def work() -> int:
        async with source.open(within=timeout) as bus:
            await check_name(bus, function, source)
            try:
                submission = await bus.submit(function, value, ToolContext(user_id=user, timeout=timeout), delay=delay)
            except CallError as error:
                print_response(
                    function, Failed(error.code, error.message, error.details, error.retryable), as_json=as_json
                )
                return Exit.FAILED
        if as_json:
            print_json({"callId": submission.call_id}, one_line=True)
        else:
            print(submission.call_id)  # noqa: T201  the command's result
        return Exit.COMPLETED

    return run(work(), level=level)
