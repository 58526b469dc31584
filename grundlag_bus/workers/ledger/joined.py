"""What is asked in the same moment is asked together: while one batch is on its way, the next one gathers.

A transaction costs the same for one call and for fifty, so a busy worker pays a fiftieth of it for each. Nobody waits
for company: what comes alone is asked at once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from grundlag_bus.errors import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

MOST = 256
MOST_BYTES = 4 * 1024 * 1024
"""Of one batch; what is larger alone is one."""


class Question(Protocol):
    """key: of which a batch has each once, the others come after it; size: bytes, about."""

    @property
    def key(self) -> str: ...

    @property
    def size(self) -> int: ...


QuestionT = TypeVar("QuestionT", bound=Question)
T = TypeVar("T")


class Joined(Generic[QuestionT, T]):
    """Asks.

    together: answers a batch, in its order, and None for what is to be asked alone; alone: answers one. Where a batch
    fails as a whole, each is asked alone, so that one that cannot be written fails no other.
    """

    def __init__(
        self,
        together: Callable[[Sequence[QuestionT]], Awaitable[Sequence[T | None]]],
        alone: Callable[[QuestionT], Awaitable[T]],
    ) -> None:
        self._together = together
        self._alone = alone
        self._waiting: deque[tuple[QuestionT, asyncio.Future[T | None]]] = deque()
        self._asking: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()

    async def ask(self, question: QuestionT) -> T:
        """Return the answer. Raises what asking for it alone raises, and StoreAwayError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | None] = loop.create_future()
        self._waiting.append((question, answer))
        if self._asking is None:
            self._asking = loop.create_task(self._ask_all(), context=self._context.copy())
        answered = await answer
        return await self._alone(question) if answered is None else answered

    async def _ask_all(self) -> None:
        try:
            await asyncio.sleep(0)  # what is asked in this turn of the loop is asked together
            while self._waiting:
                await self._ask(self._next())
        finally:
            self._asking = None
            for _, answer in self._waiting:  # only where this was cancelled, as at the end of the loop
                answer.cancel()
            self._waiting.clear()

    def _next(self) -> list[tuple[QuestionT, asyncio.Future[T | None]]]:
        batch: dict[str, tuple[QuestionT, asyncio.Future[T | None]]] = {}
        later = []
        size = 0
        while self._waiting and len(batch) < MOST:
            question, answer = each = self._waiting.popleft()
            if answer.done():
                continue  # who asked was cancelled
            size += question.size
            if question.key in batch or (batch and size > MOST_BYTES):
                later.append(each)
                if question.key not in batch:
                    break
            else:
                batch[question.key] = each
        self._waiting.extendleft(reversed(later))
        return list(batch.values())

    async def _ask(self, batch: Sequence[tuple[QuestionT, asyncio.Future[T | None]]]) -> None:
        answers: Sequence[T | None] = [None] * len(batch)
        failed: str | None = None
        try:
            answers = await self._together([question for question, _ in batch])
        except StoreAwayError as error:
            failed = str(error)
        except Exception:  # noqa: BLE001, S110  each learns by itself what is wrong, by being asked alone
            pass
        except BaseException:
            for _, answer in batch:
                answer.cancel()
            raise
        for (_, answer), answered in zip(batch, answers, strict=True):
            if answer.done():
                continue
            if failed is None:
                answer.set_result(answered)
            else:
                answer.set_exception(StoreAwayError(failed))
