"""The demo's registry: its providers, its database and its keys, in one folder of a deployment."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from grundlag_bus import DatabaseService, ProviderRegistry, SealKeys, ServiceRegistry
from grundlag_bus.demo.basics import demo
from grundlag_bus.demo.calendar_actions import calendar

KEYS_FILE = "seal-keys.json"


def default_directory(data_home: Path | None = None) -> Path:
    """Return the folder that the demo's processes on this machine share. data_home: what XDG_DATA_HOME says."""
    return (data_home or Path("~/.local/share").expanduser()) / "grundlag-bus-demo"


def registry(directory: Path | None = None) -> ProviderRegistry:
    """Make the demo's registry. directory: holds its SQLite file and its key file; made where it is missing."""
    place = directory or default_directory()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    services = ServiceRegistry()
    services.register(DatabaseService, lambda: DatabaseService.in_directory(place))
    return ProviderRegistry([calendar, demo], services=services, keys=SealKeys.load_or_create(place / KEYS_FILE))


def sample_calendar() -> str:
    """Return the text of the calendar file that the demo ships."""
    return files("grundlag_bus.demo").joinpath("week.ics").read_bytes().decode()
