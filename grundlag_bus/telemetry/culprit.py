"""Names what a thread that runs an event loop is at, seen from another thread."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

UNKNOWN = "unknown"
"""The loop waits: the process did not run for a while, or what held it up ended just before it was looked at."""

_PACKAGE = f"{Path(__file__).parents[1]}/"
_PYTHON = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")} | {"<"})
_INSTALLED = ("/site-packages/", "/dist-packages/")


def place_of(innermost: FrameType) -> str:
    """Name the innermost line of user code that the loop is at, as `file:line function`.

    Where no user code is on the stack, or where it is installed as a library is: what this package called.
    """
    frames = list(_inside_loop(innermost))
    if not frames or _waits(frames[0]):
        return UNKNOWN
    of_user = next((frame for frame in frames if _is_of_user(frame)), None)
    return _told(of_user or _called_from_here(frames))


def _inside_loop(frame: FrameType | None) -> Iterator[FrameType]:
    """Give the frames that the loop called, from the innermost outwards."""
    while frame is not None and not _is_loop(frame):
        yield frame
        frame = frame.f_back


def _is_loop(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return module == "asyncio.runners" or (module == "asyncio.base_events" and frame.f_code.co_name == "_run_once")


def _waits(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "selectors"


def _is_of_user(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((_PACKAGE, *_PYTHON)) and not any(part in file for part in _INSTALLED)


def _called_from_here(frames: list[FrameType]) -> FrameType:
    inner = frames[0]
    for frame in frames:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            break
        inner = frame
    return inner


def _told(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
