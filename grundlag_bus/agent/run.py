"""A run: a transcript, and what makes it go on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from grundlag_bus.agent.answers import accept
from grundlag_bus.agent.declared import is_model
from grundlag_bus.agent.events import AgentEvent, PendingInterrupt, Rejection, RunEnded, RunResult, RunStatus
from grundlag_bus.agent.steps import RunSteps, RunStopped
from grundlag_bus.agent.strategy import call_until_answered
from grundlag_bus.agent.stream import RunEvents
from grundlag_bus.agent.tools import is_runtime
from grundlag_bus.agent.transcript import Transcript
from grundlag_bus.errors import ConfigurationError, ModelError, RunStateError, TranscriptError
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from grundlag_bus.agent.model import Model
    from grundlag_bus.agent.strategy import Strategy
    from grundlag_bus.agent.tools import ToolRuntime

MAX_TURNS = 50


class AgentRun:
    """A model that works with tools on what it is told, until it has no more to call, must ask, or fails.

    tools: `AgentTools`, or what else can list and execute; strategy: the loop; max_turns: requests to the model per
    prompt; user_id: on whose behalf tools are called; instructions: for the model, beside the prompts; transcript: one
    to go on with; call_id: what the ids of its calls are derived from, where they are to be the same calls when they
    are made again.
    """

    def __init__(  # noqa: PLR0913  what a run is made of
        self,
        model: Model,
        tools: ToolRuntime,
        *,
        strategy: Strategy | None = None,
        max_turns: int = MAX_TURNS,
        user_id: str | None = None,
        instructions: str | None = None,
        transcript: Transcript | None = None,
        call_id: str | None = None,
    ) -> None:
        if not is_model(model):
            raise ConfigurationError(
                f"{model!r:.80} cannot be the model of a run: give it an object with a `name`, a text, and a `stream`, "
                "such as ScriptedModel(replies)."
            )
        if not is_runtime(tools):
            raise ConfigurationError(
                f"A {type(tools).__name__} cannot be the tools of a run: give it AgentTools(tools), or an object that "
                "can list and execute."
            )
        self._model = model
        self._tools = tools
        self._strategy = strategy or call_until_answered
        self._user_id = user_id
        self._instructions = instructions
        self._transcript = transcript or Transcript()
        self._call_id = call_id
        self._steps: RunSteps | None = None
        self.max_turns = max_turns

    @property
    def transcript(self) -> Transcript:
        return self._transcript

    @property
    def pending(self) -> tuple[PendingInterrupt, ...]:
        """The questions that wait for an answer, in the order of their calls."""
        return tuple(interrupt.value(call.value()) for call, interrupt in self._transcript.pending)

    @property
    def is_running(self) -> bool:
        return self._steps is not None

    # --- going on -----------------------------------------------------------------------------------------------------

    def send(self, prompt: str) -> RunEvents:
        """Tell the model something, and go on until the run ends: await the result, or iterate the events.

        Awaiting raises RunStateError while the run goes on or a call waits for an answer, NotJsonError for text that is
        no Unicode. A model that fails is no exception but a result, `failed`.
        """

        def add() -> list[AgentEvent]:
            self._transcript.add_prompt(prompt)
            return []

        return RunEvents(self._go_on(add))

    def answer(self, answers: Mapping[str, Any], *, by: str | None = None) -> RunEvents:
        """Answer some or all pending interrupts, by id, and go on; a `Rejection` as the answer rejects.

        by: who answered, if not the run's user. Awaiting raises InterruptUnknownError for an id that is not pending and
        AnswerInvalidError for an answer that does not fit: then none of them counts.
        """
        return RunEvents(self._go_on(lambda: accept(self._transcript, answers, by=by or self._user_id)))

    def reject(self, interrupt_id: str, *, reason: str | None = None, by: str | None = None) -> RunEvents:
        """Do not let the call of an interrupt run, tell the model so, and go on. Raises as `answer` does."""
        return self.answer({interrupt_id: Rejection(reason, by)})

    def resume(self, *, partly: bool = False) -> RunEvents:
        """Go on where the run ended by a failed model, by `max_turns`, by cancellation, or with its process.

        partly: as far as that can be while calls wait for answers. Awaiting raises RunStateError when a call waits for
        an answer otherwise, or nothing is left to do.
        """
        return RunEvents(self._go_on(partial(self._ensure_unfinished, partly=partly)))

    def cancel(self) -> None:
        """End the run as `cancelled`: a request to the model at once, a tool call when it has stopped.

        What waits for an answer gets none any more, also while the run does not go on.
        """
        if self._steps is not None:
            self._steps.cancel()
        else:
            self._transcript.close_calls("The run was cancelled")

    def _ensure_unfinished(self, *, partly: bool) -> list[AgentEvent]:
        if self._transcript.pending and not partly:
            raise RunStateError("The run waits for answers: answer or reject what is in run.pending.")
        if not self._transcript.records or self._transcript.is_answered:
            raise RunStateError("The run has nothing to go on with: send it a prompt.")
        return []

    async def _go_on(self, begin: Callable[[], list[AgentEvent]]) -> AsyncGenerator[AgentEvent, None]:
        if self._steps is not None:
            raise RunStateError("The run goes on already: wait for its end, or cancel it.")
        begun = begin()
        steps = self._steps = RunSteps(
            self._model,
            self._tools,
            self._transcript,
            max_turns=self.max_turns,
            user_id=self._user_id,
            instructions=self._instructions,
            call_id=self._call_id,
        )
        status: RunStatus | None = None
        error: ModelError | None = None
        try:
            try:
                for event in begun:
                    yield event
                async with aclosing(self._strategy(steps)) as events:
                    async for event in events:
                        yield event
            finally:
                await steps.close()
        except RunStopped as stopped:
            status = stopped.status
        except ModelError as raised:
            status, error = "failed", raised
        except (asyncio.CancelledError, GeneratorExit):
            self._transcript.close_calls("The run was cancelled")
            raise
        except BaseException:
            self._transcript.close_calls("The run ended by an error")
            raise
        finally:
            self._steps = None
        yield RunEnded(self._ended(status, error))

    def _ended(self, status: RunStatus | None, error: ModelError | None) -> RunResult:
        transcript = self._transcript
        if status == "cancelled":
            transcript.close_calls("The run was cancelled")
        elif status is None and not transcript.pending:
            transcript.close_calls("The run ended")
        replies = transcript.replies
        return RunResult(
            status=status or ("interrupted" if transcript.pending else "completed"),
            text=replies[-1].text if replies else "",
            turns=len(replies),
            usage=transcript.usage,
            pending=self.pending,
            error=error,
            cut=replies[-1].cut if replies else None,
        )

    # --- as data ------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Write the run as plain JSON data, at any moment; what its calls ask travels in it, sealed.

        Whoever holds it can answer, so keep it as you keep the answers.
        """
        saved = _Saved(
            user_id=self._user_id,
            instructions=self._instructions,
            max_turns=self.max_turns,
            transcript=self._transcript.to_json(),
        )
        return saved.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], *, model: Model, tools: ToolRuntime, strategy: Strategy | None = None
    ) -> AgentRun:
        """Make a run of what `to_json` wrote, here or in another process. Raises TranscriptError.

        Calls that ran at that moment have an `outcome_unknown`; nothing is called again unless the model says so.
        """
        if isinstance(data, str | bytes):
            raise TranscriptError("A run is made of the dict that to_json gave, and not of its text: use json.loads().")
        try:
            saved = _Saved.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "its root"
            raise TranscriptError(f"The run is malformed at {place}: {short(first['msg'])}") from error
        return cls(
            model,
            tools,
            strategy=strategy,
            max_turns=saved.max_turns,
            user_id=saved.user_id,
            instructions=saved.instructions,
            transcript=Transcript.from_json(saved.transcript),
        )


class _Saved(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    v: Literal[1] = 1
    user_id: str | None = None
    instructions: str | None = None
    max_turns: int = MAX_TURNS
    transcript: dict[str, Any]
