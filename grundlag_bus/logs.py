"""Loggers: structlog's where a program has configured it, else the standard library's.

structlog's own default prints to standard output, with the local variables of every frame of a traceback, passwords
among them. A program that configured nothing gets what it expects of a library: warnings and errors on standard error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def get_logger(name: str) -> Any:
    """Give a logger that chooses at each line: a program may configure structlog after it imported this package."""
    return _Logger(name)


class _Logger:
    __slots__ = ("_name", "_standard")

    def __init__(self, name: str) -> None:
        self._name = name
        self._standard = structlog.wrap_logger(
            logging.getLogger(name), processors=[_to_standard], wrapper_class=structlog.stdlib.BoundLogger
        )

    def __getattr__(self, method: str) -> Any:
        chosen = structlog.get_logger(self._name) if structlog.is_configured() else self._standard
        return getattr(chosen, method)


def _to_standard(_: Any, __: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """Put the event and its fields on one line, and leave the traceback to the logging module."""
    event, exc_info = fields.pop("event"), fields.pop("exc_info", None)
    line = " ".join([str(event), *(f"{name}={value!r}" for name, value in fields.items())])
    return (line,), {"exc_info": exc_info}
