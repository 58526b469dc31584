"""`answer`: answers, rejects or edits what a run asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.cli.call import read_input
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.running import run as run_work
from grundlag_bus.cli.runs.watching import ask, stay
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import (
    ConfigurationError,
    ForbiddenError,
    InterruptExpiredError,
    InterruptUnknownError,
    RunStateError,
    RunUnknownError,
)

if TYPE_CHECKING:
    from grundlag_bus.cli.runs.place import Place
    from grundlag_bus.durable import OpenInterrupt, Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is said to a question; nothing of it: what the person at the terminal types."""

    answer: str | None
    reject: str | None
    edit: str | None

    def __post_init__(self) -> None:
        """Raise ConfigurationError for more than one."""
        if sum(each is not None for each in (self.answer, self.reject, self.edit)) > 1:
            raise ConfigurationError("An answer, --reject and --edit exclude each other: give one of them.")


def answer_question(  # noqa: PLR0913  the command's options
    place: Place, interrupt_id: str, said: Said, *, by: str | None, wait: bool, as_json: bool, level: str
) -> int:
    """Answer what a run asks. Raises ConfigurationError, CallError, RunStateError."""
    data = None if said.answer is None else read_input(said.answer)
    other = None if said.edit is None else read_input(said.edit)

    async def work() -> int:
        async with place.open() as runs:
            asked = await _find(runs, interrupt_id)
            _ensure_theirs(asked, by)
            if said.reject is not None:
                await runs.reject(interrupt_id, by=by, reason=said.reject or None)
            elif said.edit is not None:
                await runs.edit(interrupt_id, other, by=by)
            elif said.answer is not None:
                await runs.answer(interrupt_id, data, by=by)
            else:
                _ensure_open(asked)
                if not (Terminal.is_there() and await ask(runs, asked, by=by)):
                    say(f'"{asked.message}" is not answered: answer on a terminal, or give JSON after the id.')
                    return Exit.UNANSWERED
            if wait:
                return await stay(runs, asked.run_id, by=by, as_json=as_json)
        how = "rejected" if said.reject is not None else "answered" if said.edit is None else "edited"
        say(f"{how}: `grundlag-bus run show {asked.run_id} --follow` shows how the run goes on.")
        return Exit.COMPLETED

    return run_work(work(), level=level)


async def _find(runs: Runs, interrupt_id: str) -> OpenInterrupt:
    """Return the question. Raises RunStateError where there is none of this id."""
    try:
        return await runs.interrupt(interrupt_id)
    except InterruptUnknownError:
        unknown = f"There is no question {interrupt_id!r} in this store"
    try:
        run = await runs.get(interrupt_id)
    except RunUnknownError:
        raise RunStateError(f"{unknown}: `grundlag-bus inbox` lists those that wait.") from None
    asked = await runs.pending(run_id=interrupt_id)
    if not asked:
        raise RunStateError(f"{unknown}: it is a run, which is {run.status} and asks nothing.")
    questions = " or ".join(f'{each.interrupt_id} ("{each.message}")' for each in asked)
    raise RunStateError(f"{interrupt_id!r} is a run: answer what it asks, {questions}.")


def _ensure_theirs(asked: OpenInterrupt, by: str | None) -> None:
    if asked.answerer is not None and by is None:
        raise ConfigurationError(
            f"The question is for {asked.answerer!r} to answer: add --by {asked.answerer} if that is you."
        )
    if asked.answerer not in (None, by):
        raise ForbiddenError(f"The question is for {asked.answerer!r} to answer, and not for {by!r}.")


def _ensure_open(asked: OpenInterrupt) -> None:
    """Raise, before anybody is asked, what answering would raise."""
    if asked.status == "expired":
        raise InterruptExpiredError(f"The interrupt {asked.interrupt_id!r} was not answered in time.")
    if asked.status == "cancelled":
        raise RunStateError(f"The run of the interrupt {asked.interrupt_id!r} has ended.")
    if asked.status != "pending":
        who = "somebody" if asked.answered_by is None else repr(asked.answered_by)
        raise RunStateError(f"The interrupt {asked.interrupt_id!r} was {asked.status} by {who} before.")
