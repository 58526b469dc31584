"""Logging of the command line: on stderr, as lines for people on a terminal and as JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter

if TYPE_CHECKING:
    from structlog.typing import Processor


def configure_logs(level: str) -> None:
    """Send what this package logs, and warnings of the libraries below it, to stderr.

    A traceback is printed plainly: richer ones show local variables, and so passwords.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*before, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ProcessorFormatter(foreign_pre_chain=before, processors=_render()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(threshold, logging.INFO) if threshold > logging.DEBUG else logging.WARNING)
    logging.getLogger("grundlag_bus").setLevel(threshold)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of its own plugins


def _render() -> list[Processor]:
    if sys.stderr.isatty():
        console = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
        return [ProcessorFormatter.remove_processors_meta, console]
    return [
        ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_to_json),
    ]


def _to_json(value: Any, **_: Any) -> str:
    return orjson.dumps(value, default=str).decode(errors="replace")
