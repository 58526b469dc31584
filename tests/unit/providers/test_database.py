import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, func, insert, inspect, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from grundlag_bus.errors import ConfigurationError, DatabaseError, ServicesClosedError
from grundlag_bus.providers.database import Database, DatabaseInstance, DatabaseService
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer

metadata = MetaData()
counters = Table(
    "counters", metadata, Column("id", Integer, primary_key=True), Column("value", Integer, nullable=False)
)
parents = Table("parents", metadata, Column("id", Integer, primary_key=True))
children = Table("children", metadata, Column("parent_id", ForeignKey("parents.id"), primary_key=True))
CALENDAR = Database("calendar", metadata=metadata)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/calendar.sqlite"
    given: str = request.getfixturevalue("postgres_url")
    return given


@pytest.fixture
async def service(url: str) -> AsyncIterator[DatabaseService]:
    async with DatabaseService(lambda _: url) as opened:
        yield opened


def revision(name: str, after: str | None, body: str) -> str:
    return f"""
from time import sleep

import sqlalchemy as sa
from alembic import op

revision = {name!r}
down_revision = {after!r}


def upgrade():
    {body}
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Make an Alembic script directory of two revisions, slow enough for others to come in between."""
    directory = tmp_path / "migrations"
    (directory / "versions").mkdir(parents=True)
    (directory / "env.py").write_text("raise AssertionError('for the command line')")
    one = revision("one", None, "sleep(0.05); op.create_table('events', sa.Column('id', sa.Integer, primary_key=True))")
    two = revision("two", "one", "sleep(0.05); op.add_column('events', sa.Column('title', sa.Text))")
    (directory / "versions" / "one.py").write_text(one)
    (directory / "versions" / "two.py").write_text(two)
    return directory


async def columns_of(instance: DatabaseInstance, table: str) -> list[str]:
    async with instance.engine.connect() as connection:
        return await connection.run_sync(lambda sync: [column["name"] for column in inspect(sync).get_columns(table)])


# --- what an instance is for ------------------------------------------------------------------------------------------


async def test_a_transaction_is_committed_at_its_end(service: DatabaseService) -> None:
    database = await service.get_instance(CALENDAR)
    async with database.begin() as connection:
        await connection.execute(insert(counters).values(id=1, value=7))
    async with database.begin() as connection:
        assert await connection.scalar(select(counters.c.value)) == 7


async def test_a_transaction_is_rolled_back_on_an_error(service: DatabaseService) -> None:
    database = await service.get_instance(CALENDAR)

    async def fail() -> None:
        async with database.begin() as connection:
            await connection.execute(insert(counters).values(id=1, value=7))
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        await fail()
    async with database.begin() as connection:
        assert await connection.scalar(select(func.count()).select_from(counters)) == 0


async def test_a_cancelled_transaction_holds_nothing(service: DatabaseService) -> None:
    database = await service.get_instance(CALENDAR)
    inside = asyncio.Event()

    async def write() -> None:
        async with database.begin() as connection:
            await connection.execute(insert(counters).values(id=1, value=7))
            inside.set()
            await asyncio.Event().wait()

    writing = asyncio.create_task(write())
    await inside.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    async with asyncio.timeout(5), database.begin() as connection:
        await connection.execute(insert(counters).values(id=1, value=8))


async def test_sessions_map_objects(url: str) -> None:
    class Base(DeclarativeBase):
        pass

    class Note(Base):
        __tablename__ = "notes"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str] = mapped_column(String(80))

    async with DatabaseService(lambda _: url) as service:
        database = await service.get_instance(Database("notes", metadata=Base.metadata))
        async with database.session() as session, session.begin():
            note = Note(id=1, title="Lunch")
            session.add(note)
        assert note.title == "Lunch"  # still readable after the commit
        async with database.session() as session:
            assert (await session.scalars(select(Note.title))).all() == ["Lunch"]


async def test_fifty_transactions_that_read_and_then_write_all_succeed(service: DatabaseService) -> None:
    database = await service.get_instance(CALENDAR)
    async with database.begin() as connection:
        await connection.execute(insert(counters).values(id=1, value=0))

    async def increment() -> None:
        async with database.begin() as connection:
            value = await connection.scalar(select(counters.c.value).with_for_update())
            assert value is not None
            await connection.execute(update(counters).values(value=value + 1))

    await asyncio.gather(*(increment() for _ in range(50)))
    async with database.begin() as connection:
        assert await connection.scalar(select(counters.c.value)) == 50


async def test_foreign_keys_are_enforced(service: DatabaseService) -> None:
    database = await service.get_instance(CALENDAR)
    with pytest.raises(IntegrityError):
        async with database.begin() as connection:
            await connection.execute(insert(children).values(parent_id=1))


async def test_sqlite_reads_beside_a_writer_and_survives_in_wal(tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path) as service:
        database = await service.get_instance(CALENDAR)
        async with database.begin() as writer:
            await writer.execute(insert(counters).values(id=1, value=7))
            async with asyncio.timeout(5), database.engine.connect() as reader:
                assert await reader.scalar(select(func.count()).select_from(counters)) == 0
        async with database.engine.connect() as connection:
            assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"
            assert await connection.scalar(text("PRAGMA foreign_keys")) == 1
            assert await connection.scalar(text("PRAGMA busy_timeout")) == 30_000


# --- one instance per database ----------------------------------------------------------------------------------------


async def test_a_database_is_opened_once_when_fifty_ask_at_once(scripts: Path, url: str) -> None:
    asked = 0

    def url_for(database_id: str) -> str:
        nonlocal asked
        asked += 1
        assert database_id == "calendar"
        return url

    database = Database("calendar", migrations=scripts)
    async with DatabaseService(url_for) as service:
        instances = await asyncio.gather(*(service.get_instance(database) for _ in range(50)))
        assert len(set(map(id, instances))) == 1
        assert asked == 1
        assert await columns_of(instances[0], "events") == ["id", "title"]


async def test_each_database_has_a_file_of_its_own_in_a_directory(tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path / "new" / "folder") as service:
        for name in ("calendar", "mail"):
            database = await service.get_instance(Database(name, metadata=metadata))
            async with database.begin() as connection:
                await connection.execute(insert(counters).values(id=1, value=1))
    files = {file.name for file in (tmp_path / "new" / "folder").iterdir()}
    assert files == {"calendar.sqlite", "mail.sqlite"}


async def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path / "50% of ?a#b @c") as service:
        await service.get_instance(CALENDAR)
    assert (tmp_path / "50% of ?a#b @c" / "calendar.sqlite").exists()


async def test_data_outlives_the_service(url: str) -> None:
    async with DatabaseService(lambda _: url) as service, (await service.get_instance(CALENDAR)).begin() as connection:
        await connection.execute(insert(counters).values(id=1, value=7))
    async with DatabaseService(lambda _: url) as service, (await service.get_instance(CALENDAR)).begin() as connection:
        assert await connection.scalar(select(counters.c.value)) == 7


async def test_closing_leaves_no_connection_open(postgres: PostgresServer, postgres_url: str) -> None:
    async with DatabaseService(lambda _: postgres_url) as service:
        database = await service.get_instance(CALENDAR)
        async with database.begin(), database.begin():
            pass
    name = postgres_url.rpartition("/")[2]
    async with DatabaseService(lambda _: postgres.url()) as looking:
        other = await looking.get_instance(Database("looking", metadata=MetaData()))
        async with asyncio.timeout(5), other.engine.connect() as connection:
            counting = text("SELECT count(*) FROM pg_stat_activity WHERE datname = :name").bindparams(name=name)
            while await connection.scalar(counting):
                await connection.rollback()
                await asyncio.sleep(0.01)


async def test_a_closed_service_opens_nothing(url: str) -> None:
    async with DatabaseService(lambda _: url) as service:
        pass
    with pytest.raises(ServicesClosedError, match="'calendar' was asked for after its DatabaseService was closed"):
        await service.get_instance(CALENDAR)


async def test_who_waits_for_a_database_when_its_service_closes_is_told_so(url: str) -> None:
    async with DatabaseService(lambda _: url) as service:
        asked = asyncio.create_task(service.get_instance(CALENDAR))
        await asyncio.sleep(0)
    with pytest.raises(ServicesClosedError, match="'calendar' was asked for after its DatabaseService was closed"):
        await asked


async def test_a_failure_that_nobody_waits_for_any_more_is_logged_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: errors.append(told))
    async with DatabaseService(lambda _: f"sqlite+aiosqlite:///{tmp_path}/missing/calendar.sqlite") as service:
        asked = asyncio.create_task(service.get_instance(CALENDAR))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await eventually(lambda: caplog.records)
    del asked
    gc.collect()
    await asyncio.sleep(0)
    assert errors == []
    assert caplog.messages == ["opening_failed what='database calendar'"]


async def test_cancelling_who_asked_first_does_not_cancel_the_opening_for_others(scripts: Path, url: str) -> None:
    database = Database("calendar", migrations=scripts)
    async with DatabaseService(lambda _: url) as service:
        first = asyncio.create_task(service.get_instance(database))
        second = asyncio.create_task(service.get_instance(database))
        await asyncio.sleep(0)
        first.cancel()
        assert await columns_of(await second, "events") == ["id", "title"]


# --- migrating --------------------------------------------------------------------------------------------------------

PROGRAM = dedent(
    """
    import asyncio, sys, time
    from pathlib import Path
    import aiosqlite, alembic.operations, alembic.script, asyncpg  # loaded before the start: it takes long
    from sqlalchemy import Column, Integer, MetaData, Table, event
    from grundlag_bus.providers.database import Database, DatabaseService

    url, scripts, start = sys.argv[1:]
    metadata = MetaData()
    table = Table("events", metadata, Column("id", Integer, primary_key=True))
    event.listen(table, "before_create", lambda *_, **__: time.sleep(0.1))
    given = Database("calendar", migrations=scripts) if scripts else Database("calendar", metadata=metadata)

    async def main():
        async with DatabaseService(lambda _: url) as service:
            await service.get_instance(given)

    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.001)
    asyncio.run(main())
    """
)


@pytest.mark.parametrize("contents", ["metadata", "migrations"])
def test_processes_that_start_together_migrate_once(url: str, scripts: Path, contents: str, tmp_path: Path) -> None:
    start = tmp_path / "start"
    arguments = [url, str(scripts) if contents == "migrations" else "", str(start)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


async def test_services_in_one_process_migrate_different_databases_at_once(scripts: Path, tmp_path: Path) -> None:
    """Alembic's `op` is one per process: without care, revisions of one database run on the other."""
    database = Database("calendar", migrations=scripts)
    services = [DatabaseService.in_directory(tmp_path / str(number)) for number in range(3)]
    instances = await asyncio.gather(*(service.get_instance(database) for service in services))
    assert [await columns_of(instance, "events") for instance in instances] == [["id", "title"]] * 3
    for service in services:
        await service.close()


async def test_the_event_loop_is_free_while_a_database_is_migrated(scripts: Path, tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path) as service:
        opening = asyncio.create_task(service.get_instance(Database("calendar", migrations=scripts)))
        turns = 0
        while not opening.done():
            await asyncio.sleep(0.01)
            turns += 1
        await opening
    assert turns >= 5  # it takes 0.1 s at least


async def test_later_revisions_are_applied_when_a_new_release_starts(scripts: Path, url: str) -> None:
    database = Database("calendar", migrations=scripts)
    async with DatabaseService(lambda _: url) as service:
        await service.get_instance(database)
    three = revision("three", "two", "op.add_column('events', sa.Column('place', sa.Text))")
    (scripts / "versions" / "three.py").write_text(three)
    async with DatabaseService(lambda _: url) as service:
        assert await columns_of(await service.get_instance(database), "events") == ["id", "title", "place"]


async def test_a_migration_that_fails_changes_nothing_and_is_tried_again(scripts: Path, url: str) -> None:
    broken = scripts / "versions" / "three.py"
    broken.write_text(revision("three", "two", "op.drop_table('nothing')"))
    database = Database("calendar", migrations=scripts)
    async with DatabaseService(lambda _: url) as service:
        with pytest.raises(DatabaseError, match=r"The database 'calendar' could not be opened: .*nothing"):
            await service.get_instance(database)
        broken.write_text(revision("three", "two", "assert not sa.inspect(op.get_bind()).get_indexes('events')"))
        assert await columns_of(await service.get_instance(database), "events") == ["id", "title"]


async def test_a_table_can_be_replaced_without_losing_what_refers_to_it(scripts: Path, tmp_path: Path) -> None:
    """SQLite alters tables by replacing them, and dropping the old one would cascade if foreign keys were enforced."""
    files = scripts / "versions"
    (files / "three.py").write_text(
        revision(
            "three",
            "two",
            "op.create_table('guests', sa.Column('event', sa.Integer, sa.ForeignKey('events.id', ondelete='CASCADE')));"
            "op.execute('INSERT INTO events (id) VALUES (1)'); op.execute('INSERT INTO guests VALUES (1)')",
        )
    )
    database = Database("calendar", migrations=scripts)
    async with DatabaseService.in_directory(tmp_path) as service:
        await service.get_instance(database)
    (files / "four.py").write_text(
        revision("four", "three", "\n    with op.batch_alter_table('events') as batch: batch.drop_column('title')")
    )
    async with DatabaseService.in_directory(tmp_path) as service:
        instance = await service.get_instance(database)
        async with instance.begin() as connection:
            assert await connection.scalar(text("SELECT count(*) FROM guests")) == 1


async def test_a_revision_may_build_an_index_outside_a_transaction(scripts: Path, postgres_url: str) -> None:
    (scripts / "versions" / "three.py").write_text(
        revision(
            "three",
            "two",
            "\n    with op.get_context().autocommit_block():"
            "\n        op.create_index('by_title', 'events', ['title'], postgresql_concurrently=True)",
        )
    )
    database = Database("calendar", migrations=scripts)
    services = [DatabaseService(lambda _: postgres_url) for _ in range(2)]
    async with asyncio.timeout(30):
        await asyncio.gather(*(service.get_instance(database) for service in services))
    for service in services:
        await service.close()


# --- failures name the database ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda _: "sqlite:///x.sqlite", "its URL begins with sqlite://: use sqlite"),
        (lambda _: "postgresql://localhost/x", "its URL begins with postgresql://: use sqlite"),
        (lambda _: "sqlite+aiosqlite://", "in-memory"),
        (lambda _: "sqlite+aiosqlite:///:memory:", "in-memory"),
        (lambda _: "no url", "ArgumentError: Could not parse"),
        (lambda _: "sqlite+aiosqlite:////nowhere/at/all.sqlite", "unable to open database file"),
        ({}.__getitem__, "KeyError: 'calendar'"),
    ],
)
async def test_what_cannot_be_opened_is_named(given: Callable[[str], str], told: str) -> None:
    async with DatabaseService(given) as service:
        with pytest.raises(DatabaseError, match=f"The database 'calendar' could not be opened: .*{told}") as caught:
            await service.get_instance(CALENDAR)
    assert caught.value.database_id == "calendar"


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "calendar.sqlite").write_text("no database" * 1000)
    async with DatabaseService.in_directory(tmp_path) as service:
        with pytest.raises(DatabaseError, match=r"'calendar' could not be opened: .*file is not a database"):
            await service.get_instance(CALENDAR)


async def test_a_missing_script_directory_is_named(tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path) as service:
        with pytest.raises(DatabaseError, match="'calendar' could not be opened: CommandError: Path doesn't exist"):
            await service.get_instance(Database("calendar", migrations=tmp_path / "missing"))


@pytest.mark.parametrize("change", [{"database": "missing"}, {"password": "wrong-password"}, {"port": 1}])
async def test_no_failure_tells_a_password(postgres: PostgresServer, change: dict[str, Any]) -> None:
    async with DatabaseService(lambda _: postgres.url(**change)) as service:
        with pytest.raises(
            DatabaseError, match=r"'calendar' could not be opened: .*\(postgresql\+asyncpg://"
        ) as caught:
            await service.get_instance(CALENDAR)
    assert postgres.address.password is not None
    assert postgres.address.password not in str(caught.value)
    assert "wrong-password" not in str(caught.value)


async def test_two_databases_may_not_share_an_id(service: DatabaseService) -> None:
    await service.get_instance(CALENDAR)
    assert await service.get_instance(Database("calendar", metadata=metadata)) is await service.get_instance(CALENDAR)
    with pytest.raises(ConfigurationError, match="Two different databases have the id 'calendar'"):
        await service.get_instance(Database("calendar", metadata=MetaData()))


@pytest.mark.parametrize("contents", [{}, {"metadata": metadata, "migrations": "migrations"}])
def test_a_database_has_metadata_or_migrations(contents: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'calendar' needs either metadata= or migrations="):
        Database("calendar", **contents)


def test_an_id_cannot_lead_out_of_the_directory() -> None:
    with pytest.raises(ConfigurationError, match="is no valid database id"):
        Database("../calendar", metadata=metadata)


def test_a_database_is_a_value() -> None:
    assert Database("calendar", metadata=metadata) == CALENDAR
    assert len({CALENDAR, Database("calendar", metadata=metadata), Database(f"x{uuid4().hex}", metadata=metadata)}) == 2
