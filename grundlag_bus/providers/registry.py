"""A registry: providers, the services their actions use, and the keys that seal what interrupts keep."""

from __future__ import annotations

import asyncio
import contextvars
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.providers.services import OpenServices, ServiceRegistry
from grundlag_bus.schema.manifest import Manifest, build_manifest
from grundlag_bus.tools import JoiningCaller, Tool, to_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.provider import Provider

    Authorize = Callable[[str | None, str, str, Any], bool | Awaitable[bool]]


class ProviderRegistry:
    """Providers and what their actions need.

    services: recipes of what actions ask for; keys: seal the state of interrupts, to be shared by all workers of the
    providers (None: keys of this process alone); authorize: `(user id, provider id, action id, input) -> bool`, async
    or not, asked before each start of an action; revision: a newer announcement replaces an older one, never the other
    way round.

    As an async context manager it opens its services and closes them; it may be opened again, and several times at
    once. Outside `async with`, services open on first use and stay open with the process. Those that live as long as
    the worker see the context variables of whoever opened the registry, or else of whoever made it: never a call's.
    """

    def __init__(
        self,
        providers: Iterable[Provider] = (),
        *,
        services: ServiceRegistry | None = None,
        keys: SealKeys | None = None,
        authorize: Authorize | None = None,
        revision: int = 0,
    ) -> None:
        self.providers: dict[str, Provider] = {}
        self.services = ServiceRegistry() if services is None else services
        self.revision = revision
        self.authorize = authorize
        self.shared_keys = keys is not None
        self._keys = keys
        self._variables = contextvars.copy_context()
        self._opened: OpenServices | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._users = 0
        for provider in providers:
            self.register(provider)

    def register(self, provider: Provider) -> Provider:
        """Add a provider and return it. Raises ConfigurationError when its id is taken."""
        if provider.id in self.providers:
            raise ConfigurationError(f"The registry has two providers with the id {provider.id!r}: rename one of them.")
        self.providers[provider.id] = provider
        return provider

    def find(self, provider_id: str, action_id: str) -> Action | None:
        """Return an action, or None."""
        provider = self.providers.get(provider_id)
        return None if provider is None else provider.actions.get(action_id)

    async def authorized(self, user_id: str | None, provider_id: str, action_id: str, input: Any) -> bool:  # noqa: A002  the wire's word
        """Ask `authorize`; without one everybody may do everything. userId is what the caller claims."""
        if self.authorize is None:
            return True
        answer = self.authorize(user_id, provider_id, action_id, input)
        return await answer if isawaitable(answer) else answer

    @property
    def keys(self) -> SealKeys:
        """The keys given, or those of this process."""
        if self._keys is None:
            self._keys = SealKeys.generate()
        return self._keys

    def share_keys(self, keys: SealKeys) -> None:
        """Take keys that other workers have too, in place of those given before: a deployment's, not the code's."""
        self._keys = keys
        self.shared_keys = True

    @property
    def interrupting(self) -> tuple[str, ...]:
        """The actions that may interrupt, as `provider.action`, sorted."""
        return tuple(
            sorted(
                f"{provider.id}.{action.id}"
                for provider in self.providers.values()
                for action in provider.actions.values()
                if action.answer is not None
            )
        )

    def manifest(self) -> Manifest:
        """Describe every provider, with function names allocated."""
        return build_manifest(provider.to_manifest() for provider in self.providers.values())

    async def to_tools(self) -> dict[str, Tool]:
        """Make a tool of every action, keyed by function name; calls run in this process."""
        return to_tools(self.manifest(), JoiningCaller(LocalCaller(self)))

    def opened(self) -> OpenServices:
        """Return the services, opened now if they are not."""
        return self._open(self._variables)

    def _open(self, variables: contextvars.Context) -> OpenServices:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._loop is not loop:
            self._opened, self._loop = self.services.open(variables), loop
        return self._opened

    async def __aenter__(self) -> Self:
        self._open(contextvars.copy_context())
        self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users == 0 and self._opened is not None:
            opened, self._opened = self._opened, None
            await opened.__aexit__(kind, error, trace)
