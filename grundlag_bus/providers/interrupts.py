"""Interrupts at the side that runs actions: seal what an action keeps, and open it when the answer comes."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import NestedInterruptError, ToolInterrupt
from grundlag_bus.providers.context import ActionResumption
from grundlag_bus.providers.seal import Binding, seal, unseal
from grundlag_bus.schema.codec import digest, plain
from grundlag_bus.schema.envelope import Call, Interrupted, derived_interrupt_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.registry import ProviderRegistry

EXPIRY = 30 * 24 * 3600.0
"""Seconds until an interrupt can no longer be answered."""


class Interrupts:
    """Makes interrupted responses and reads resumptions, under the registry's keys."""

    def __init__(self, registry: ProviderRegistry, namespace: str, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._namespace = namespace
        self._clock = clock

    def resumption(self, action: Action, call: Call) -> ActionResumption[Any] | None:
        """Check the answer of a call that goes on after an interrupt: first the seal, then the answer itself.

        Raises StateInvalidError, InterruptExpiredError, AnswerInvalidError; the interrupt then stays pending.
        """
        given = call.request.resumption
        if given is None:
            return None
        binding = self._binding(action, call, given.interrupt_id)
        state = unseal(self._registry.keys, given.state, binding, now=self._clock())
        return ActionResumption(given.interrupt_id, action.parse_answer(given.answer), state, given.by)

    def response(
        self, action: Action, call: Call, interrupt: ToolInterrupt, items: list[dict[str, Any]]
    ) -> Interrupted:
        """Make the response that asks a person.

        Raises NestedInterruptError, NotJsonError, and ConfigurationError for an action that declares no answer.
        """
        if interrupt.interrupt_id is not None:
            raise NestedInterruptError(
                f"Action {call.provider_id}.{action.id} let the interrupt of an inner call pass "
                f"({interrupt.message!r}): it has to catch ToolInterrupt and ask itself."
            )
        if action.answer is None:
            raise action.undeclared_interrupt()
        interrupt_id = derived_interrupt_id(call.call_id, call.generation)
        expires_at = self._clock() + EXPIRY
        state = plain(interrupt.state, at=("interrupt", "state"))
        binding = self._binding(action, call, interrupt_id)
        return Interrupted(
            interrupt_id,
            message=plain(str(interrupt.message), at=("interrupt", "message")),
            data=plain(interrupt.data, at=("interrupt", "data")),
            state=seal(self._registry.keys, state, binding, expires_at=expires_at),
            expires_at=expires_at,
            answer_schema=deepcopy(action.answer.schema),  # its caller's own: a form may be made of it
            items=items,
        )

    def _binding(self, action: Action, call: Call, interrupt_id: str) -> Binding:
        return Binding(
            namespace=self._namespace,
            provider_id=call.provider_id,
            action_id=call.action_id,
            user_id=call.user_id,
            input_digest=digest(call.request.input),
            interrupt_id=interrupt_id,
            answer_schema_digest=None if action.answer is None else action.answer.digest,
        )
