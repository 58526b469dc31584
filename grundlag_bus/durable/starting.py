"""How runs come to be, are asked to end, and are removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import delete, select, update

from grundlag_bus._version import __version__
from grundlag_bus.durable.journal import OF_RUN
from grundlag_bus.durable.records import CHANNEL, add_entry, wake
from grundlag_bus.errors import (
    ActionInputValidationError,
    ConfigurationError,
    Issue,
    NotJsonError,
    RunStateError,
    RunUnknownError,
)
from grundlag_bus.sandbox.script.inputs import checked_inputs
from grundlag_bus.schema.codec import digest, plain
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.json_schema import JsonValidator
from grundlag_bus.store.tables import interrupts, run_answers, run_calls, run_entries, runs

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from grundlag_bus.schema.manifest import ActionManifest, ProviderManifest
    from grundlag_bus.schema.run import Kind, Run, RunEntry
    from grundlag_bus.store.store import Store

_BATCH = 200
_LONGEST_ID = 64
_LONGEST_NAME = 200
_LONGEST_USER = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be. spec: all that it is started with; began: entries that its journal begins with."""

    run_id: str
    kind: Kind
    name: str
    spec: dict[str, Any]
    user_id: str | None
    answerer: str | None
    retry_of: str | None = None
    began: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Raise NotJsonError for what is too long, or no text."""
        for what, text, most in (
            ("runId", self.run_id, _LONGEST_ID),
            ("userId", self.user_id, _LONGEST_USER),
            ("answerer", self.answerer, _LONGEST_USER),
        ):
            if text is not None and len(plain(text, at=(what,))) > most:
                raise NotJsonError(Issue((what,), "too_long", f"it has {len(text)} characters, and the most is {most}"))


def call_spec(
    provider: ProviderManifest, action: ActionManifest, value: Any, *, timeout: float | None
) -> dict[str, Any]:
    """Say what a run of a call is started with. Raises ActionInputValidationError."""
    return {
        "function": action.function_name,
        "providerId": provider.id,
        "actionId": action.id,
        "input": checked_input(action, value),
        "timeout": timeout,
        "versions": {"grundlagBus": __version__, "input": digest(action.input)},
    }


def script_spec(
    source: str,
    inputs: Mapping[str, Any],
    taken: Container[str],
    *,
    tools: Iterable[str] | None,
    timeout: float | None,
) -> dict[str, Any]:
    """Say what a run of a script is started with. Raises ConfigurationError, NotJsonError."""
    return {
        "source": plain(source),
        "inputs": checked_inputs(inputs, taken),
        "tools": None if tools is None else list(tools),
        "timeout": timeout,
        "versions": {"grundlagBus": __version__},
    }


def agent_spec(
    *, instructions: str | None, tools: Iterable[str] | None, taken: Container[str], max_turns: int
) -> dict[str, Any]:
    """Say what an agent is started with. Raises ConfigurationError for a tool that there is not."""
    names = None if tools is None else list(tools)
    for name in names or ():
        if name not in taken:
            raise ConfigurationError(
                f"There is no tool {name!r} to choose: list what there is with `grundlag-bus tools`."
            )
    return {
        "instructions": plain(instructions, at=("instructions",)),
        "tools": names,
        "maxTurns": max_turns,
        "versions": {"grundlagBus": __version__},
    }


def name_of(source: str) -> str:
    """Name a script by its first line, as far as a database can hold that."""
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")[:_LONGEST_NAME]
    return "".join(letter for letter in first if letter.isprintable())


def checked_input(action: ActionManifest, value: Any) -> Any:
    """Return an input as plain data. Raises ActionInputValidationError."""
    try:
        data = plain(value)
    except NotJsonError as error:
        raise ActionInputValidationError(action.id, [error.issue]) from error
    if issues := JsonValidator(action.input).issues(data):
        raise ActionInputValidationError(action.id, issues)
    return data


def another_try(run: Run, entries: Sequence[RunEntry], source: str | None) -> NewRun:
    """Make the run that is another try.

    entries: the journal. A script keeps its beginning, for its clock and its chance to be the same, and an agent all
    that was said. source: what is run instead. Raises RunStateError.
    """
    if run.status not in ("failed", "cancelled"):
        raise RunStateError(
            f"The run {run.run_id!r} is {run.status}: only one that failed or was cancelled has another try."
        )
    if source is not None and run.kind != "script":
        raise RunStateError(f"The run {run.run_id!r} is no script: it has no source to be replaced.")
    spec = {**(run.spec or {}), "versions": run.versions}
    if source is not None:
        spec["source"] = plain(source)
    return NewRun(
        run_id=new_call_id(),
        kind=run.kind,
        name=run.name if source is None else name_of(source),
        spec=spec,
        user_id=run.user_id,
        answerer=run.answerer,
        retry_of=run.run_id,
        began=tuple(_kept(run, entries, spec)),
    )


def _kept(run: Run, entries: Sequence[RunEntry], spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        if run.kind == "script" and entry.kind == "began":
            yield {**entry.entry, "source": spec["source"]}
        if run.kind == "agent" and not entry.kind.startswith(OF_RUN):
            yield dict(entry.entry)


class Starting:
    """Writes runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def start(self, new: NewRun) -> None:
        """Write a run, that is due at once; one that was started under this id before is that one.

        Raises RunStateError where that was asked for something else.
        """
        spec = orjson.dumps(new.spec, option=orjson.OPT_SORT_KEYS)
        row = {
            "run_id": new.run_id,
            "kind": new.kind,
            "name": new.name,
            "user_id": new.user_id,
            "answerer": new.answerer,
            "status": "running",
            "ready": 1,
            "due_at": 0.0,
            "cancelling": 0,
            "fence": 0,
            "entries": 0,
            "spec": spec,
            "retry_of": new.retry_of,
            "created_at": self._store.now,
            "changed_at": self._store.now,
        }
        async with self._store.transaction() as connection:
            if (await connection.execute(self._store.insert_new(runs, row))).rowcount == 1:
                started = {"kind": "run.started", "run": new.kind, "name": new.name, "userId": new.user_id}
                for entry in (started, *new.began):
                    await add_entry(connection, self._store, new.run_id, entry)
                await self._store.notify(connection, CHANNEL)
                return
            known = select(runs.c.kind, runs.c.user_id, runs.c.spec).where(runs.c.run_id == new.run_id)
            before = (await connection.execute(known)).one()
        asked, was = orjson.loads(spec), orjson.loads(before.spec)
        if (before.kind, before.user_id) != (new.kind, new.user_id) or _asks(asked) != _asks(was):
            raise RunStateError(f"Another run has the id {new.run_id!r}: give each its own.")

    async def cancel(self, run_id: str) -> None:
        """Let a run end as cancelled; nothing happens to one that has ended. Raises RunUnknownError."""
        mine = runs.c.run_id == run_id
        async with self._store.transaction() as connection:
            locked = select(runs.c.ended_at).where(mine).with_for_update()
            found = (await connection.execute(locked)).one_or_none()
            if found is None:
                raise RunUnknownError(run_id)
            if found.ended_at is None:
                await connection.execute(update(runs).where(mine).values(cancelling=1))
                await wake(connection, self._store, [run_id])

    async def prune(self, *, older_than: float) -> int:
        """Remove runs that ended so many seconds ago, with all that belongs to them, and return how many."""
        gone = 0
        while True:
            async with self._store.transaction() as connection:
                old = select(runs.c.run_id).where(runs.c.ended_at < self._store.now - older_than).limit(_BATCH)
                ids = (await connection.scalars(old.with_for_update(skip_locked=True))).all()
                for table in (run_entries, run_calls, interrupts, run_answers, runs):
                    await connection.execute(delete(table).where(table.c.run_id.in_(ids)))
            gone += len(ids)
            if len(ids) < _BATCH:
                return gone


def _asks(spec: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked for; what there was to be called then is no part of it."""
    return {name: value for name, value in spec.items() if name not in {"versions", "tools"}}
