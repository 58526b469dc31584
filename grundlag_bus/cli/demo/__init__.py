"""`demo`: the main job, shown to a newcomer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.cli.demo.stage import embedded_stage, rabbitmq_stage
from grundlag_bus.cli.demo.story import Calendar, play, refuse
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_host
from grundlag_bus.demo import sample_calendar
from grundlag_bus.demo.ics import CalendarInvalidError, decode_ics
from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from grundlag_bus.cli.demo.stage import Stage

EMBEDDED_NAMESPACE = "grundlag"
RABBITMQ_NAMESPACE = "grundlag-demo"
"""One of the demo's own, so that its calls meet no workers but those that it starts."""


def demo(*, ics: Path | None, url: str | None, namespace: str | None, level: str) -> int:
    """Play the demo and return its exit code: 1 when the calendar file is refused.

    Its database lives in a temporary directory, so that runs do not depend on each other.
    Raises ConfigurationError, TransportError, CallError.
    """
    refuse_host(url)
    try:
        calendar = _read(ics)
    except CalendarInvalidError as error:
        return refuse(str(ics), error)

    async def work() -> int:
        with tempfile.TemporaryDirectory(prefix="grundlag-bus-demo-") as directory:
            async with _stage(url, namespace, Path(directory)) as stage:
                return await play(stage, calendar)

    return run(work(), level=level)


def _stage(url: str | None, namespace: str | None, directory: Path) -> AbstractAsyncContextManager[Stage]:
    if url is None or url.startswith("memory://"):
        return embedded_stage(namespace or EMBEDDED_NAMESPACE, directory)
    return rabbitmq_stage(url, namespace or RABBITMQ_NAMESPACE, directory)


def _read(file: Path | None) -> Calendar:
    if file is None:
        return Calendar("the calendar that grundlag-bus ships", sample_calendar())
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"The calendar file {file} cannot be read ({error.strerror}): give a file that exists."
        ) from error
    return Calendar(str(file), decode_ics(data))
