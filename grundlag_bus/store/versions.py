"""How far a store's database is upgraded, and whether this program has written it so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, inspect, text

from grundlag_bus.errors import DatabaseError
from grundlag_bus.store.engines import is_sqlite
from grundlag_bus.store.migrating import upgrade

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "grundlag_version"
NAME = "store"

_NEWER = "a newer grundlag-bus has upgraded it: use that version here too"
_NONE = "no store is there: see whether the URL is the one that its workers have, which make it when they start"


def check_there(address: URL) -> None:
    """Raise DatabaseError where SQLite would make a file."""
    if is_sqlite(address) and not Path(address.database or "").is_file():
        raise DatabaseError(NAME, f"{_NONE} ({address.database}).")


def check_version(connection: Connection) -> None:
    """Raise DatabaseError where there is no store, or not as this program has it."""
    found = version_of(connection)
    if found is None:
        raise DatabaseError(NAME, f"{_NONE}.")
    script = _script()
    if found in script.get_heads():
        return
    if any(each.revision == found for each in script.walk_revisions()):
        older = f"it is of an older grundlag-bus ({found}): start a worker of this version with it, which upgrades it"
        raise DatabaseError(NAME, f"{older}, or use that older version here too.")
    raise DatabaseError(NAME, f"{_NEWER} ({found}).")


def version_of(connection: Connection) -> str | None:
    """Return the revision that a database is at, None for one that holds no store."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608  ours
    return found


def bring_up_to_date(connection: Connection) -> None:
    """Make or upgrade the tables. Raises DatabaseError."""
    from alembic.util import CommandError  # noqa: PLC0415  slow to import, and needed only here

    try:
        upgrade(connection, MIGRATIONS, version_table=VERSION_TABLE)
    except CommandError as error:
        raise DatabaseError(NAME, f"{_NEWER} ({error})") from error


def _script() -> ScriptDirectory:
    from alembic.script import ScriptDirectory  # noqa: PLC0415  slow to import, and needed only here

    return ScriptDirectory(str(MIGRATIONS))
