"""What an action is given beside its input. Everything that costs is made on first use."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.schema.items import Item
from grundlag_bus.schema.progress import Progress
from grundlag_bus.schema.refusal import short
from grundlag_bus.tools.context import ItemStore, Logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.providers.provider import Event
    from grundlag_bus.providers.run_lease import RunLease
    from grundlag_bus.providers.services import Services
    from grundlag_bus.schema.trace import Trace

AnswerT = TypeVar("AnswerT", default=Any)

_LOGGER = get_logger("grundlag_bus.action")


@dataclass(frozen=True, slots=True)
class ActionResumption(Generic[AnswerT]):
    """The answer to the interrupt that an earlier run of this call raised.

    answer: parsed by the action's answer model; state: what the interrupt kept; by: who answered, where known.
    """

    interrupt_id: str
    answer: AnswerT
    state: Any = None
    by: str | None = None


def _unheard(progress: Progress) -> None:
    """Take progress that nobody listens to."""


class ActionItems(ItemStore):
    """The caller's items, and apart from them those that this call emits."""

    def __init__(self, items: Iterable[Item] = (), report: Callable[[Progress], None] = _unheard) -> None:
        super().__init__(items)
        self.emitted: list[Item] = []
        self._report = report

    def emit(self, type: str, data: Any) -> Item:  # noqa: A002  the wire's word
        item = super().emit(type, data)
        self.emitted.append(item)
        self._report(Progress(items=[item.to_json()]))
        return item


class Drain:
    """Tells running actions that their worker is stopping; one per `LocalCaller`."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


_NO_DRAIN = Drain()


_NUMBERS = (int, float)  # and no bool


class _Turn:
    """Something to await that gives the loop one turn, and that nothing happens to where it is not awaited."""

    def __await__(self) -> Generator[None]:
        yield


TURN = _Turn()


def _forgotten(_state: Any) -> Awaitable[None]:
    """Take a checkpoint that no further start asks for."""
    return TURN


def _dropped(_event: Event | str, _data: Any) -> Awaitable[None]:
    """Take an event that nobody listens to."""
    return TURN


class ActionContext(Generic[AnswerT]):
    """What an action is given beside its input.

    call_id: an idempotency key, the same each time this call is started; user_id: on whose behalf, as the caller
    claims; resumption: the answer, when the call goes on after an interrupt, else None; deferred: the state that the
    `Defer` before this start kept, else None; checkpointed: the last state that an earlier start gave to `checkpoint`,
    else None; attempt: 1 for the first; trace: where the call belongs, if its caller told. The calls that the action
    makes pass it on.
    """

    __slots__ = (
        "_cancelled",
        "_checkpoint",
        "_deadline",
        "_drain",
        "_emit",
        "_given_items",
        "_items",
        "_lease",
        "_logger",
        "_report",
        "action_id",
        "attempt",
        "call_id",
        "checkpointed",
        "deferred",
        "provider_id",
        "resumption",
        "services",
        "trace",
        "user_id",
    )

    def __init__(  # noqa: PLR0913  the fields of a call
        self,
        *,
        services: Services,
        call_id: str,
        provider_id: str,
        action_id: str,
        deadline: float,
        user_id: str | None = None,
        resumption: ActionResumption[AnswerT] | None = None,
        attempt: int = 1,
        deferred: Any = None,
        checkpointed: Any = None,
        trace: Trace | None = None,
        items: list[dict[str, Any]] | None = None,
        logger: Logger | None = None,
        drain: Drain = _NO_DRAIN,
        report: Callable[[Progress], None] = _unheard,
        emit: Callable[[Event | str, Any], Awaitable[None]] = _dropped,
        lease: RunLease | None = None,
        checkpoint: Callable[[Any], Awaitable[None]] = _forgotten,
    ) -> None:
        self.services = services
        self.call_id = call_id
        self.provider_id = provider_id
        self.action_id = action_id
        self.user_id = user_id
        self.resumption = resumption
        self.attempt = attempt
        self.deferred = deferred
        self.checkpointed = checkpointed
        self.trace = trace
        self._deadline = deadline
        self._given_items = items
        self._items: ActionItems | None = None
        self._logger = logger
        self._drain = drain
        self._report = report
        self._emit = emit
        self._lease = lease
        self._checkpoint = checkpoint
        self._cancelled = False

    @property
    def logger(self) -> Logger:
        """A structlog logger that knows the provider, the action and the call, and the trace where there is one."""
        if self._logger is None:
            traced = {} if self.trace is None else {"trace_id": self.trace.trace_id}
            fields = {"provider": self.provider_id, "action": self.action_id, "call_id": self.call_id, **traced}
            self._logger = _LOGGER.bind(**fields)
        return self._logger

    @property
    def deadline(self) -> datetime:
        """When the call ends as `deadline_exceeded`, in UTC."""
        return instant_to_datetime(self._deadline)

    @property
    def items(self) -> ActionItems:
        """The items that the caller sent.

        What is emitted here reaches it with the reply, on every outcome, and at once if it listens to progress.
        """
        if self._items is None:
            self._items = ActionItems((Item.from_json(item) for item in self._given_items or ()), self._report)
        return self._items

    @property
    def emitted(self) -> list[dict[str, Any]]:
        """The items emitted so far, as JSON data."""
        return [] if self._items is None else [item.to_json() for item in self._items.emitted]

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> Awaitable[None]:
        """Tell the caller how far the call is, if it listens, and begin the `idle_timeout` anew.

        `await` it in a coroutine function; in a thread, call it. Of what is told faster than it can be sent, the newest
        is sent. Raises NotJsonError for what is no JSON data, TypeError for what is no number and no text.
        """
        done, total, text = plain((done, total, text), at=("progress",))
        if type(done) not in _NUMBERS or type(total) not in (*_NUMBERS, NoneType) or type(text) not in (str, NoneType):
            raise TypeError(f"progress is told in two numbers and a text, not in {short(repr((done, total, text)))}")
        self._report(Progress(done, total, text))
        return TURN

    def emit(self, event: Event | str, data: Any) -> Awaitable[None]:
        """Tell whoever listens (`bus.events`) that something happened, whatever becomes of the call.

        event: one of the action's own provider, or its id; data: a value of its model, or plain JSON data for one.
        `await` it in a coroutine function; in a thread, call it: it returns when the broker has the event. That nobody
        listens is no error. An action that is started again emits again, with the same ids where it is the same start.
        Raises ConfigurationError for an event that is not declared, EventInvalidError, EventNotSentError.
        """
        return self._emit(event, data)

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Record where the call continues if it is started again, which finds it in `checkpointed`.

        The newest counts, over crashes, drains, retries and deferrals, until the call ends; each begins the
        `idle_timeout` anew. state: JSON data, 64 KiB at most. `await` it in a coroutine function; in a thread, call it:
        it returns when it is recorded. In process it is kept for as long as the call goes on. Raises NotJsonError,
        LeaseLostError when another worker has the call by now, ConfigurationError where the worker has no ledger.
        """
        return self._checkpoint(state)

    @property
    def fence(self) -> int | None:
        """A number that is greater at each start of the call, for targets that refuse smaller ones; None: no ledger."""
        return None if self._lease is None else self._lease.fence

    def ledger_transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a transaction in the ledger's database, as a SQLAlchemy connection, whose effect happens once.

        It is committed together with the outcome, when the action has returned; where it raises (`ToolInterrupt` and
        `Defer` too) or another worker has the call by then, it is rolled back. To be opened once, in a coroutine
        function, with `async with`; on SQLite nothing else is recorded from its first write until the action returns,
        and leases are renewed no more: write last. Raises ConfigurationError where the worker has no ledger.
        """
        if self._lease is None:
            raise ConfigurationError(
                "ctx.ledger_transaction() needs a ledger: start the worker with --ledger URL, or Worker(ledger=)."
            )
        return self._lease.transaction()

    @property
    def cancelled(self) -> bool:
        """Whether the call was given up: for actions in threads, which nothing can stop from outside."""
        return self._cancelled

    def cancel(self) -> None:
        """Make `cancelled` true."""
        self._cancelled = True

    @property
    def draining(self) -> bool:
        """Whether the worker is stopping and gives the action its grace time."""
        return self._drain.begun
