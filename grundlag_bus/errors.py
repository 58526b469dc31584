"""Every error of the package, by whose fault it is, and the two signals an action may raise.

Rules:
- An error carries attributes; its text is for people and is never parsed.
- `CallError` and below are how a call ended: each has a `code` of the wire, and `error_from_failure` turns a failed
  response into exactly the exception that an in-process call raises.
- `ToolInterrupt` and `Defer` are no errors. They derive from `BaseException`, so that an action's `except Exception`
  cannot swallow them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

IssuePath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with a value.

    path: keys and indexes from the value's root to the place; code: a short stable word; message: a sentence that
    never holds the whole value.
    """

    path: IssuePath
    code: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"path": list(self.path), "code": self.code, "message": self.message}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Issue:
        path = data.get("path")
        return cls(
            tuple(path) if isinstance(path, list) else (),
            str(data.get("code", "invalid")),
            str(data.get("message", "")),
        )

    def __str__(self) -> str:
        place = ".".join(str(step) for step in self.path) or "the value itself"
        return f"{place}: {self.message}"


class GrundlagError(Exception):
    """Base of every error that this package raises."""


# --- the developer's or operator's part -------------------------------------------------------------------------------


class ConfigurationError(GrundlagError):
    """A definition or a setting is wrong: seen at start, never in the middle of a call."""


class ServiceMissingError(ConfigurationError):
    """Nothing is registered for the type that an action asked of `Services`."""

    def __init__(self, wanted: type, registered: Iterable[type]) -> None:
        self.wanted = wanted
        self.registered = tuple(registered)
        names = ", ".join(sorted(t.__qualname__ for t in self.registered)) or "nothing"
        super().__init__(
            f"No service {wanted.__qualname__} is registered (registered: {names}): "
            f"add services.register({wanted.__qualname__}, recipe) to the registry's ServiceRegistry."
        )


class DatabaseError(ConfigurationError):
    """A database could not be opened or migrated; `database_id` names it."""

    def __init__(self, database_id: str, reason: str) -> None:
        self.database_id = database_id
        super().__init__(f"The database {database_id!r} could not be opened: {reason}")


class StoreAwayError(GrundlagError):
    """The database of a ledger does not answer, or cannot write; whether it did the last thing is unsure."""


class LeaseLostError(GrundlagError):
    """A worker was late, and another one has the call: what its action still does here counts for nothing."""


class ServicesClosedError(GrundlagError):
    """A service was asked of `Services` whose call or worker has ended."""


class TopologyMismatchError(ConfigurationError):
    """A queue or exchange exists on the broker with other arguments than this version declares."""


class NotJsonError(GrundlagError, ValueError):
    """A value cannot cross the seam: it is no plain JSON data, too deep or too large. `issue` names the place."""

    def __init__(self, issue: Issue) -> None:
        self.issue = issue
        super().__init__(str(issue))


class EnvelopeError(GrundlagError):
    """Bytes from the bus are no envelope of this version. `reason` says what is wrong with them."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


# --- the transport's part ---------------------------------------------------------------------------------------------


class TransportError(GrundlagError):
    """The transport could not do what was asked."""


class BusUnreachableError(TransportError):
    """The broker cannot be reached or refuses the connection; the text names the address without its password."""


class UnroutableError(TransportError):
    """No queue takes this message: it was not accepted by the broker."""


class PublishForbiddenError(TransportError):
    """The broker will never take this user's message there (no permission, no such exchange): it was not accepted."""


class PublishRefusedError(TransportError):
    """The broker refused the message (a nack): it was not accepted, and may be later."""


class PublishExpiredError(PublishRefusedError):
    """Nothing of the message was written by its deadline: the broker never saw it."""


class PublishUnsureError(TransportError):
    """The message was written and the connection ended before the broker confirmed it: it may have been accepted."""


class EventNotSentError(TransportError):
    """An event that an action emitted was not confirmed by the broker; event_id names its kind.

    accepted: False where it is sure that nobody hears of it, None where somebody may.
    """

    def __init__(self, event_id: str, reason: str, *, accepted: bool | None) -> None:
        self.event_id = event_id
        self.accepted = accepted
        super().__init__(f"The event {event_id!r} was not sent: {reason}")


class TransportClosedError(TransportError):
    """The transport was closed, or not opened yet: nothing was written."""


# --- how a call ended -------------------------------------------------------------------------------------------------


class CallError(GrundlagError):
    """A call that failed.

    code: the wire's code; details: plain JSON data; retryable: whether the same call may succeed later.
    """

    code: str = "internal"
    retryable: bool = False
    issues: tuple[Issue, ...] = ()

    def __init__(self, message: str, *, details: Any = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if retryable is not None:
            self.retryable = retryable


class ActionFailed(CallError):  # noqa: N818  it is what an action says, and named so in the public API
    """The action itself says that it failed: raise it with a code of your own and a sentence for the caller."""

    def __init__(self, code: str, message: str, *, details: Any = None, retryable: bool = False) -> None:
        super().__init__(message, details=details, retryable=retryable)
        self.code = code


class _IssuesError(CallError):
    """A value that does not fit its schema, with every issue found."""

    subject: ClassVar[str] = "value"

    def __init__(self, owner_id: str, issues: Sequence[Issue]) -> None:
        self.owner_id = owner_id
        self.issues = tuple(issues)
        more = f" (and {len(self.issues) - 3} more)" if len(self.issues) > 3 else ""  # noqa: PLR2004  a sentence's worth
        told = "; ".join(str(issue) for issue in self.issues[:3])
        super().__init__(
            f"The {self.subject} of {owner_id} is not valid: {told}{more}",
            details={"actionId": owner_id, "issues": [issue.to_json() for issue in self.issues]},
        )


class ActionInputValidationError(_IssuesError):
    """The input does not fit the action's schema; the action did not run."""

    code = "input_invalid"
    subject = "input"

    @property
    def action_id(self) -> str:
        return self.owner_id


class ActionOutputValidationError(_IssuesError):
    """What the action returned (or emitted, or kept as state) does not fit its schema or is no JSON data."""

    code = "output_invalid"
    subject = "output"

    @property
    def action_id(self) -> str:
        return self.owner_id


class EventInvalidError(ActionOutputValidationError):
    """What an action emits does not fit the event's schema or is no JSON data; each path begins with the event's id."""

    subject = "event"


class ToolInputValidationError(_IssuesError):
    """The input does not fit the schema of a tool made by `define_tool`; the tool did not run."""

    code = "input_invalid"
    subject = "input"

    @property
    def tool_id(self) -> str:
        return self.owner_id


class ToolOutputValidationError(_IssuesError):
    """What a tool made by `define_tool` returned does not fit its schema."""

    code = "output_invalid"
    subject = "output"

    @property
    def tool_id(self) -> str:
        return self.owner_id


class AnswerInvalidError(_IssuesError):
    """The answer does not fit the interrupt's schema; the interrupt stays pending."""

    code = "answer_invalid"
    subject = "answer"

    @property
    def action_id(self) -> str:
        return self.owner_id


class ActionUnknownError(CallError):
    """Nobody announced this action."""

    code = "action_unknown"


class ProviderUnavailableError(CallError):
    """No queue exists for the provider's lane: no worker of it has ever started here."""

    code = "provider_unavailable"
    retryable = True


class OverloadedError(CallError):
    """The broker refused the call; it was not accepted."""

    code = "overloaded"
    retryable = True


class DeadlineExceededError(CallError):
    """The deadline passed first. details: {published: true, false or null when unsure}."""

    code = "deadline_exceeded"


class OutcomeUnknownError(CallError):
    """The call may have run. details: {published: true, or null when unsure}."""

    code = "outcome_unknown"


class CallCancelledError(CallError):
    """Somebody asked for that: the action was stopped, or never started."""

    code = "cancelled"


class AttemptsExhaustedError(CallError):
    """The call was started as often as it may be; it is among the dead letters.

    details: {starts, last} where its action raised; {starts, lost} where its workers died, of which `lost` counts all,
    and `starts` is what that may have meant at most.
    """

    code = "attempts_exhausted"


class ForbiddenError(CallError):
    """The registry's `authorize` does not let this user call this action with this input."""

    code = "forbidden"


class UnauthenticatedError(CallError):
    """The host asks who calls: there is no token, or none that it takes."""

    code = "unauthenticated"


class CallIdReusedError(CallError):
    """A call of this id and with other content is running; nothing of it is told."""

    code = "call_id_reused"


class StateInvalidError(CallError):
    """The state of a resumption was not sealed for this user, action, input and namespace."""

    code = "state_invalid"


class InterruptExpiredError(CallError):
    """The interrupt was not answered in time."""

    code = "interrupt_expired"


class AnswerConflictError(CallError):
    """The interrupt was answered before, with something else, and that answer counts."""

    code = "answer_conflict"


class NestedInterruptError(CallError):
    """An inner call's interrupt may not leave the outer action: the outer one has to ask itself."""

    code = "nested_interrupt"


class PayloadTooLargeError(CallError):
    """A request or a response is larger than the limit, as JSON. details: {limit, size} in bytes."""

    code = "payload_too_large"


class InternalError(CallError):
    """The action raised something unexpected; details: {type, reference}, the reference finds the worker's log line."""

    code = "internal"


_PLAIN: dict[str, type[CallError]] = {
    kind.code: kind
    for kind in (
        ActionUnknownError,
        ProviderUnavailableError,
        OverloadedError,
        DeadlineExceededError,
        OutcomeUnknownError,
        CallCancelledError,
        AttemptsExhaustedError,
        ForbiddenError,
        UnauthenticatedError,
        CallIdReusedError,
        StateInvalidError,
        InterruptExpiredError,
        AnswerConflictError,
        NestedInterruptError,
        PayloadTooLargeError,
        InternalError,
    )
}
_WITH_ISSUES: dict[str, type[_IssuesError]] = {
    kind.code: kind for kind in (ActionInputValidationError, ActionOutputValidationError, AnswerInvalidError)
}


def error_from_failure(code: str, message: str, details: Any, *, retryable: bool, action_id: str) -> CallError:
    """Make the exception that a failed response stands for, of the class that the same call raises in process."""
    issues = _issues_in(details)
    if code in _WITH_ISSUES and issues is not None:
        return _WITH_ISSUES[code](str(details.get("actionId", action_id)), issues)
    if code in _PLAIN:
        return _PLAIN[code](message, details=details, retryable=retryable)
    return ActionFailed(code, message, details=details, retryable=retryable)


def _issues_in(details: Any) -> list[Issue] | None:
    """Read the issues of a failure; None where there are none, as when an action chose such a code for itself."""
    told = details.get("issues") if isinstance(details, dict) else None
    if not isinstance(told, list) or not all(isinstance(issue, dict) for issue in told):
        return None
    return [Issue.from_json(issue) for issue in told]


# --- an agent's run ---------------------------------------------------------------------------------------------------


class ModelError(GrundlagError):
    """A model gave no reply. Its run ends as `failed`, with its transcript whole, and can be resumed.

    code: `rate_limited`, `unreachable`, `unavailable`, `refused`, `reply_invalid` or `internal`; retryable: whether the
    same request may succeed later; retry_after: seconds, where the model's host named them.
    """

    def __init__(
        self, message: str, *, code: str = "internal", retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after


class RunStateError(GrundlagError):
    """A run cannot do this now: it goes on already, waits for answers, or has nothing to go on with."""


class RunUnknownError(GrundlagError):
    """The store has no run of this id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"There is no run {run_id!r}: it was never started in this store, or is pruned.")


class TranscriptError(GrundlagError):
    """Data is no transcript, or no run, of this version. `reason` says what is wrong with it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InterruptUnknownError(RunStateError):
    """No pending interrupt of the run has such an id: it was answered already, or was never its own."""

    def __init__(self, interrupt_ids: Iterable[str], pending: Iterable[str]) -> None:
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending = tuple(pending)
        super().__init__(
            f"No interrupt {', '.join(map(repr, self.interrupt_ids))} is pending "
            f"(pending: {', '.join(map(repr, self.pending)) or 'none'}): answer those in run.pending, each once."
        )


# --- a script ---------------------------------------------------------------------------------------------------------


class ScriptError(GrundlagError):
    """A script gave no value. The text says to its author what is wrong, where, and how what it uses is called.

    message: what is wrong; line: in the script; source: that line's text; signature: the declaration of the tools that
    it calls; calls: the ScriptCalls that were made, each with its outcome; stdout: what was printed.
    """

    def __init__(
        self, message: str, *, line: int | None = None, source: str | None = None, signature: str | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.source = source
        self.signature = signature
        self.calls: tuple[Any, ...] = ()
        self.stdout = ""
        super().__init__(message)

    def __str__(self) -> str:
        first, _, more = self.message.partition("\n")
        place = "" if self.line is None else f"Line {self.line}: "
        told = [f"{place}{first}", *([f"    {self.source.strip()}"] if self.source else []), *([more] if more else [])]
        return "\n".join([*told, *(["", self.signature] if self.signature else [])])


class ScriptInvalidError(ScriptError):
    """Nothing of the script ran: it is no script, its types do not fit, or it is too long.

    problems: each with its line, as (line, rule, message).
    """

    def __init__(self, message: str, *, problems: Iterable[tuple[int, str, str]] = (), **fields: Any) -> None:
        self.problems = tuple(problems)
        super().__init__(message, **fields)


class ScriptFailedError(ScriptError):
    """The script raised and caught nothing. exception: the name of what it raised; trace: its lines, innermost last."""

    def __init__(self, message: str, *, exception: str, trace: Iterable[int] = (), **fields: Any) -> None:
        self.exception = exception
        self.trace = tuple(trace)
        super().__init__(message, **fields)


class ScriptLimitError(ScriptError):
    """The script came to a limit: `time`, `memory`, `recursion`, `suspensions`, `journal` or `engine`."""

    def __init__(self, message: str, *, limit: str, **fields: Any) -> None:
        self.limit = limit
        super().__init__(message, **fields)


class ScriptValueError(ScriptError):
    """The value of the last expression is no plain JSON data. issue: the place in it."""

    def __init__(self, issue: Issue) -> None:
        self.issue = issue
        place = f" at {'.'.join(map(str, issue.path))}" if issue.path else ""
        super().__init__(f"The value of the last expression cannot be the script's result{place}: {issue.message}")


class ScriptCancelledError(ScriptError):
    """Somebody set the signal of the script's context: it went no further."""


class ScriptReplayError(ScriptError):
    """A script does not do again what its journal says: its tools or its engine are others.

    call: the number of the call where they part, in the order in which calls were made.
    """

    def __init__(self, message: str, *, call: int | None = None) -> None:
        self.call = call
        super().__init__(message)


# --- signals ----------------------------------------------------------------------------------------------------------


class ToolInterrupt(BaseException):
    """A person must answer before the call can go on.

    An action raises it with `message`, `data` (shown to the person) and `state` (64 KiB of JSON at most, kept sealed).
    At the caller it also carries what a resumption needs: `interrupt_id`, the sealed `state`, the `input` of the call,
    the JSON Schema of the answer, and when it expires. pending: of a script, the interrupts of its calls; stdout: what
    it has printed so far.
    """

    def __init__(  # noqa: PLR0913  the fields of the wire's interrupted response
        self,
        message: str,
        *,
        data: Any = None,
        state: Any = None,
        interrupt_id: str | None = None,
        input: Any = None,  # noqa: A002  the wire's word
        answer_schema: dict[str, Any] | None = None,
        expires_at: datetime | None = None,
        pending: Iterable[ToolInterrupt] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.state = state
        self.interrupt_id = interrupt_id
        self.input = input
        self.answer_schema = answer_schema
        self.expires_at = expires_at
        self.pending = tuple(pending)
        self.stdout = ""


class Defer(BaseException):
    """Not now: start the call again after some seconds. Nothing is held meanwhile, and it costs no attempt.

    state: plain JSON data, which the next start finds in `ctx.deferred`; after: seconds.
    """

    def __init__(self, state: Any = None, *, after: float) -> None:
        super().__init__(f"start again in {after:g} s")
        self.state = state
        self.after = after
