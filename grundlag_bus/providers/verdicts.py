"""What the end of a run means, as an outcome: for an error, by who can have raised it at this stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from grundlag_bus.errors import (
    ActionFailed,
    ActionOutputValidationError,
    CallError,
    ConfigurationError,
    Defer,
    EventInvalidError,
    NestedInterruptError,
    NotJsonError,
    ToolInterrupt,
)
from grundlag_bus.providers import failures
from grundlag_bus.providers.bounds import Stop
from grundlag_bus.providers.disposition import Deferred, Ended, Outcome, Raised, checked_pause
from grundlag_bus.providers.started import Stage, Started
from grundlag_bus.schema.codec import plain
from grundlag_bus.tools.endings import cancelled, deadline_exceeded

if TYPE_CHECKING:
    from grundlag_bus.providers.interrupts import Interrupts


def stopped(stop: Stop, run: Started, *, limit: float) -> Ended:
    """Say what a run ends with that was not left to end by itself."""
    action, call = run.action, run.call
    match stop:
        case Stop.CANCELLED:
            response = cancelled(call, published=True)
        case Stop.DEADLINE:
            response = deadline_exceeded(call, published=True)
        case Stop.LIMIT:
            response = failures.over_limit(call, limit)
        case Stop.IDLE:
            response = failures.idle(call, action.idle_timeout)
        case _:
            assert_never(stop)
    return Ended(replace(response, items=run.emitted))


def of_error(error: BaseException, run: Started, interrupts: Interrupts) -> Outcome:
    """Say what an error means, by who can have raised it at this stage."""
    action, call, items = run.action, run.call, run.emitted
    match run.stage, error:
        case Stage.CHECKING, CallError():
            return Ended(failures.refused(error))
        case Stage.RUNNING, ToolInterrupt() | Defer():
            return _of_signal(error, run, interrupts)
        case Stage.RUNNING, ActionFailed():
            return Raised(error, failures.told_by_action(call, error, items))
        case Stage.RUNNING, NotJsonError():  # from `items.emit`
            return Ended(failures.output_refused(call, ActionOutputValidationError(action.id, [error.issue]), items))
        case (Stage.RUNNING, EventInvalidError() as wrong) | (
            Stage.FINISHING,
            ActionOutputValidationError() as wrong,
        ):
            return Ended(failures.output_refused(call, wrong, items))
    retry = action.policy.retry
    again = retry is not None and retry.applies(error, call.attempt)
    return Raised(error, failures.internal(call, error, items, again=again))


def _of_signal(signal: ToolInterrupt | Defer, run: Started, interrupts: Interrupts) -> Outcome:
    action, call, items = run.action, run.call, run.emitted
    try:
        if isinstance(signal, Defer):
            return Deferred(plain(signal.state, at=("deferred",)), checked_pause(signal.after))
        return Ended(interrupts.response(action, call, signal, items))
    except NestedInterruptError as nested:
        return Ended(failures.refused(nested, items))
    except NotJsonError as not_json:
        invalid = ActionOutputValidationError(action.id, [not_json.issue])
        return Ended(failures.output_refused(call, invalid, items))
    except (ConfigurationError, TypeError) as misused:
        return Ended(failures.internal(call, misused, items))
