"""A bus: tools and calls from one place, wherever the actions run."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from grundlag_bus.adapters.bus_caller import BusCaller
from grundlag_bus.adapters.later import Later
from grundlag_bus.adapters.listening import EventListener, Hub, HubListener, QueueListener
from grundlag_bus.errors import ActionUnknownError, CallError, ConfigurationError, TransportClosedError
from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.schema.envelope import Call, Failed, Reply, new_call_id
from grundlag_bus.schema.manifest import Manifest, build_manifest, current
from grundlag_bus.telemetry import Hook, ignore
from grundlag_bus.tools import Caller, JoiningCaller, RemoteAction, Tool, ToolContext, to_tools
from grundlag_bus.transport import Transport, ladder

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from grundlag_bus.adapters.http.runs import HttpRuns
    from grundlag_bus.adapters.submission import Submission
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.schema.progress import ProgressSink


class Bus(ABC):
    """An async context manager that gives tools. Made by `connect`.

    caller: the seam, for whoever makes calls by hand; transport: None where the actions run in this process.
    """

    caller: Caller
    transport: Transport | None = None

    def __init__(self) -> None:
        self._now: Callable[[], float] = time.time
        self._manifest: Manifest | None = None
        self._listeners: WeakSet[EventListener] = WeakSet()

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    async def _describe(self) -> Manifest: ...

    async def manifest(self) -> Manifest:
        """Describe what can be called: read from the bus each time, also while no worker is up."""
        self._manifest = await self._describe()
        return self._manifest

    async def shows(self, user_id: str | None, provider_id: str, action_id: str) -> bool:  # noqa: ARG002  see RegistryBus
        """Whether a host shows an action to a user; hiding it protects nothing, whoever runs the call does."""
        return True

    @property
    def runs(self) -> HttpRuns:
        """The durable runs of an HTTP host. Raises ConfigurationError where this bus leads to none."""
        raise ConfigurationError(
            "Only an HTTP host has runs of its own, which is started by `grundlag-bus serve --store URL`: here, make "
            "Runs(store, bus)."
        )

    async def to_tools(self, manifest: Manifest | None = None) -> dict[str, Tool]:
        """Make a tool of every action, by function name: of the manifest given, or of what the bus announces."""
        return to_tools(manifest or await self.manifest(), self.caller, clock=self._now)

    async def call(self, function_name: str, input: Any, context: ToolContext | None = None) -> Reply:  # noqa: A002  the wire's word
        """Call an action by its function name and return the reply, whatever it is.

        The manifest is read once, and again when the call does not fit it. Raises TransportError.
        """
        context = context or ToolContext()
        try:
            remote, call = await self._prepare(function_name, input, context)
        except CallError as error:
            return Reply(new_call_id(), Failed(error.code, error.message, error.details, error.retryable), "caller")
        return await remote.send(call, context)

    async def submit(
        self,
        function_name: str,
        input: Any,  # noqa: A002  the wire's word
        context: ToolContext | None = None,
        *,
        delay: float = 0,
    ) -> Submission:
        """Send a call, to be started no earlier than after `delay` seconds, and return when it is sure to be.

        Over a broker it waits there, and is started by whichever worker is up then, also when this bus is closed; in
        this process it is started while the bus is open. delay: rounded up to whole seconds, 12 days at most; the
        call's timeout counts from its end. Whether a worker of the provider ever started is known at once only where
        there is no delay: else such a call is a dead letter when it is due.

        Raises ConfigurationError for a delay that cannot be, TransportError, and how the call ended where it could not
        be sent: ActionInputValidationError, ProviderUnavailableError, OverloadedError and the other CallErrors. An
        OutcomeUnknownError says that it may run.
        """
        seconds = ladder.whole_seconds(delay)
        if delay < 0:
            raise ConfigurationError(f"A call cannot be delayed by {delay:g} s: use 0 or more.")
        context = context or ToolContext()
        remote, call = await self._prepare(function_name, input, context)
        call = replace(call, sent_at=call.sent_at + seconds, deadline=call.deadline + seconds)
        return await self._submit(call, seconds, context, remote.sink(context))

    def events(self, pattern: str = "#") -> EventListener:
        """Listen to what actions emit: `async with bus.events("calendar.*") as events`, then `async for` over them.

        pattern: `provider.event`, where `*` is any word and `#` any number of them. Nothing that is emitted after it
        was entered is missed while the connection is there, or away for less than a minute; `events.gaps` counts when
        that took longer. An event is settled when the next one is asked for, and those that wait do so on the broker.
        The iteration ends with the bus. Raises ConfigurationError for a pattern that no event matches; entering it
        raises TransportError.
        """
        listener = self._listener(pattern)
        self._listeners.add(listener)
        return listener

    @abstractmethod
    def _listener(self, pattern: str) -> EventListener: ...

    async def _stop_listening(self) -> None:
        await asyncio.gather(*(listener.close() for listener in tuple(self._listeners)))

    @abstractmethod
    async def _submit(
        self, call: Call, delay: int, context: ToolContext, on_progress: ProgressSink | None
    ) -> Submission: ...

    async def _prepare(
        self,
        function_name: str,
        input: Any,  # noqa: A002  the wire's word
        context: ToolContext,
    ) -> tuple[RemoteAction, Call]:
        try:
            return self._prepared(self._manifest or await self.manifest(), function_name, input, context)
        except CallError:  # what was announced may have changed since it was read
            return self._prepared(await self.manifest(), function_name, input, context)

    def _prepared(
        self,
        manifest: Manifest,
        function_name: str,
        input: Any,  # noqa: A002  the wire's word
        context: ToolContext,
    ) -> tuple[RemoteAction, Call]:
        found = manifest.find_function(function_name)
        if found is None:
            raise ActionUnknownError(
                f"Nobody announced a function {function_name!r}: list what there is with `grundlag-bus tools`."
            )
        provider, action = found
        remote = RemoteAction(provider.id, action, self.caller, self._now)
        return remote, remote.call(input, context)


class RegistryBus(Bus):
    """Runs the actions of a registry in this process; open while it is entered."""

    def __init__(self, registry: ProviderRegistry, *, namespace: str) -> None:
        super().__init__()
        self._registry = registry
        self._hub = Hub()
        self._local = LocalCaller(registry, namespace=namespace, events=self._hub)
        self._local.close()
        self.caller = JoiningCaller(self._local)
        self._later = Later(self.caller)

    async def __aenter__(self) -> Self:
        await self._registry.__aenter__()
        self._local.open()
        self._hub.open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.open = False
        await self._later.close()
        await self._stop_listening()
        self._local.close()
        await self._registry.__aexit__(kind, error, trace)

    async def _submit(
        self, call: Call, delay: int, context: ToolContext, on_progress: ProgressSink | None
    ) -> Submission:
        if not self._hub.open:
            raise TransportClosedError("The bus is not open: submit calls inside `async with connect(...) as bus`.")
        return self._later.submit(
            call, delay=delay, items=context.items, on_progress=on_progress, cancel=context.signal
        )

    def _listener(self, pattern: str) -> EventListener:
        return HubListener(self._hub, pattern)

    async def _describe(self) -> Manifest:
        return self._registry.manifest()

    async def shows(self, user_id: str | None, provider_id: str, action_id: str) -> bool:
        """Ask the registry's `authorize`, without an input."""
        return await self._registry.authorized(user_id, provider_id, action_id, None)


class TransportBus(Bus):
    """Sends calls over a transport, which it opens and closes."""

    transport: Transport

    def __init__(self, transport: Transport, *, hook: Hook = ignore) -> None:
        super().__init__()
        self.transport = transport
        self._now = transport.now
        self._bus_caller = BusCaller(transport, hook=hook)
        self.caller = JoiningCaller(self._bus_caller, clock=transport.now)

    async def __aenter__(self) -> Self:
        try:
            await self._bus_caller.open()
        except BaseException:
            await self.transport.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop_listening()
        await self._bus_caller.close()
        await self.transport.close()

    def _listener(self, pattern: str) -> EventListener:
        return QueueListener(self.transport, pattern)

    async def _submit(
        self, call: Call, delay: int, context: ToolContext, on_progress: ProgressSink | None
    ) -> Submission:
        return await self._bus_caller.submit(
            call, delay=delay, items=context.items, on_progress=on_progress, cancel=context.signal
        )

    async def _describe(self) -> Manifest:
        announced = current(await self.transport.read(self.transport.topology.manifests)).values()
        return build_manifest(each.provider for each in announced if each.provider is not None)
