"""Services: what actions reach of their host. Recipes are registered once, instances are opened when first asked for.

- `ServiceRegistry` holds recipes, `OpenServices` the instances of one worker, `Services` is what one call sees.
- A worker-scoped service lives in a task of its own: its recipe enters and leaves in one task (task groups and cancel
  scopes need that), sees the context variables that `ServiceRegistry.open` was given and not those of the call that
  happened to ask first, and is not cancelled with that call.
- A call-scoped service opens and closes in the call, so that context variables it sets are seen by the action.
- An instance is closed before those that it was made from: in the reverse of the order in which they became ready.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from grundlag_bus.errors import ConfigurationError, ServiceMissingError, ServicesClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.closing import attempt, raise_failures
from grundlag_bus.providers.recipes import Recipe, leave, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.providers.recipes import Closer, ServiceRecipe, ServiceScope

T = TypeVar("T")

_LOGGER = get_logger("grundlag_bus.providers")


class ServiceRegistry:
    """The recipes of a host's services."""

    def __init__(self) -> None:
        self._recipes: dict[type, Recipe] = {}

    def register(self, kind: type[T], recipe: ServiceRecipe[T], *, scope: ServiceScope = "worker") -> None:
        """Say how the service `kind` is made, and whether one lives per worker or one per call.

        recipe: a function (an async context manager, async generator, async or plain one) or a class, which takes
        nothing or the `Services` to make it from; or a ready instance, which is never closed here. An async context
        manager that a recipe makes is entered, and left when its scope ends.
        """
        if kind in self._recipes:
            raise ConfigurationError(f"The service {name_of(kind)} is registered twice: remove one of the two.")
        if scope not in ("worker", "call"):
            raise ConfigurationError(f"The service {name_of(kind)} has the scope {scope!r}: use 'worker' or 'call'.")
        self._recipes[kind] = Recipe.read(kind, recipe, scope)

    def open(self, variables: contextvars.Context | None = None) -> OpenServices:
        """Give the instances of one worker: an async context manager that closes what was opened meanwhile.

        variables: the context variables that worker-scoped services see; None for those of whoever opens them here.
        """
        return OpenServices(self._recipes, variables)


class _Opening:
    """One attempt to open a service.

    ready: done once the instance is there, or the attempt failed or was given up; error: why it failed, which is no
    exception of `ready` since nobody may be left to look at it; asks: the openings that it waits for or waited for.
    """

    __slots__ = ("asks", "error", "kind", "ready", "waiting")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: BaseException | None = None
        self.asks: list[_Opening] = []
        self.waiting = 0

    async def wait(self, asker: _Opening | None) -> None:
        """Wait until it is ready, on behalf of `asker`. Raises its error."""
        _wait_for(self, asker)
        self.waiting += 1
        try:
            await asyncio.shield(self.ready)
        finally:
            self.waiting -= 1
        if self.error is not None:
            raise self.error

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.ready.set_result(None)

    def path_to(self, target: _Opening) -> list[type]:
        """Follow what unfinished openings wait for from here to `target`; nothing when no way leads there."""
        if self is target:
            return [self.kind]
        for asked in self.asks:
            if not asked.ready.done() and (rest := asked.path_to(target)):
                return [self.kind, *rest]
        return []


class _Living(_Opening):
    """A worker-scoped service, from its opening to its closing in one task."""

    __slots__ = ("_closing", "_task")

    def __init__(self, recipe: Recipe, opened: OpenServices) -> None:
        super().__init__(recipe.kind)
        self._closing = asyncio.Event()
        live = self._live(recipe, opened)
        self._task = asyncio.create_task(live, name=f"service {name_of(recipe.kind)}", context=opened.variables.copy())

    async def _live(self, recipe: Recipe, opened: OpenServices) -> None:
        try:
            instance, closer = await recipe.open(Services(opened, asker=self))
        except asyncio.CancelledError:
            self.fail(_too_late(self.kind))
        except BaseException as error:
            if not self.waiting:
                _LOGGER.warning("opening_failed", what=f"service {name_of(self.kind)}", exc_info=error)
            self.fail(error)
        else:
            opened.instances[self.kind] = instance
            opened.living.append(self)
            self.ready.set_result(None)
            try:
                await self._closing.wait()
            except asyncio.CancelledError as error:  # the loop ends with services open
                await leave(closer, error)
                raise
            await leave(closer, None)

    async def close(self) -> None:
        """Close the instance, or give up opening it."""
        self._closing.set()
        if self.ready.done():
            await self._task
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self.ready.done():  # its task had not begun
            self.fail(_too_late(self.kind))


class OpenServices:
    """The services of one worker, each opened at its first `get`; use it as an async context manager."""

    def __init__(self, recipes: Mapping[type, Recipe], variables: contextvars.Context | None = None) -> None:
        self.recipes = recipes
        self.instances: dict[type, Any] = {}
        self.living: list[_Living] = []
        self.variables = contextvars.copy_context() if variables is None else variables
        self.closed = False
        self._openings: dict[type, _Living] = {}

    def call_scope(self) -> CallScope:
        """Give the services of one call: an async context manager that costs next to nothing until it is used."""
        return CallScope(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        await self.close(error)

    async def close(self, error: BaseException | None = None) -> None:
        """Close what was opened. `error` is what ends the worker, and goes before errors of closing."""
        self.closed = True
        self.instances.clear()
        unfinished = [opening for opening in self._openings.values() if not opening.ready.done()]
        found = [await attempt(opening.kind, opening.close()) for opening in unfinished]
        while self.living:
            living = self.living.pop()
            found.append(await attempt(living.kind, living.close()))
        raise_failures(found, error)

    async def open_once(self, recipe: Recipe, asker: _Opening | None) -> None:
        """Open a worker-scoped service, or wait for who opens it."""
        opening = self._openings.get(recipe.kind)
        if opening is None or opening.ready.done():  # done without an instance: that attempt failed
            opening = self._openings[recipe.kind] = _Living(recipe, self)
        await opening.wait(asker)


class CallScope:
    """The services of one call: `async with opened.call_scope() as services`."""

    __slots__ = ("_closers", "_openings", "closed", "instances", "opened")

    def __init__(self, opened: OpenServices) -> None:
        self.opened = opened
        self.instances: dict[type, Any] = {}
        self.closed = False
        self._openings: dict[type, _Opening] = {}
        self._closers: list[tuple[type, Closer]] = []

    async def __aenter__(self) -> Services:
        return Services(self.opened, self)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.closed = True
        self.instances.clear()
        if self._closers:
            closers = reversed(self._closers)
            found = [await attempt(kind, leave(closer, error)) for kind, closer in closers]
            raise_failures(found, error)

    async def open_once(self, recipe: Recipe, asker: _Opening | None) -> None:
        """Open a call-scoped service here, or wait for the part of the call that opens it."""
        opening = self._openings.get(recipe.kind)
        if opening is not None:
            await opening.wait(asker)
            return
        opening = self._openings[recipe.kind] = _Opening(recipe.kind)
        _wait_for(opening, asker)
        try:
            instance, closer = await recipe.open(Services(self.opened, self, asker=opening))
        except Exception as error:
            opening.fail(error)
            raise
        else:
            if self.closed:  # the call ended while a part of it that nobody awaits was opening this
                await leave(closer, None)
                raise _too_late(recipe.kind)
            self.instances[recipe.kind] = instance
            if closer is not None:
                self._closers.append((recipe.kind, closer))
        finally:
            del self._openings[recipe.kind]
            if not opening.ready.done():
                opening.ready.set_result(None)


class Services:
    """The services that an action, or the recipe of another service, may ask for."""

    __slots__ = ("_asker", "_call", "_opened")

    def __init__(self, opened: OpenServices, call: CallScope | None = None, *, asker: _Opening | None = None) -> None:
        self._opened = opened
        self._call = call
        self._asker = asker

    @classmethod
    def of(cls, instances: Mapping[type, Any]) -> Services:
        """Make services of ready instances, fakes among them, for calling an action in a test."""
        opened = OpenServices({})
        opened.instances.update(instances)
        return cls(opened)

    async def get(self, kind: type[T]) -> T:
        """Give the service `kind`, opened when nobody asked for it before in its scope.

        Raises ServiceMissingError when nothing is registered for it, and whatever its recipe raises.
        """
        opened, call = self._opened, self._call
        if kind in opened.instances:
            return cast("T", opened.instances[kind])
        recipe = opened.recipes.get(kind)
        if recipe is None:
            raise ServiceMissingError(kind, {**opened.recipes, **opened.instances})
        scope = opened if recipe.scope == "worker" else call
        if scope is None:
            asker = "A service of the worker" if self._asker is None else f"The service {name_of(self._asker.kind)}"
            raise ConfigurationError(
                f"{asker} lives as long as its worker and asks for {name_of(kind)}, which lives for one call: "
                f"register the former with scope='call' or the latter with scope='worker'."
            )
        while kind not in scope.instances:  # again when who opened it was cancelled
            if scope.closed:
                raise _too_late(kind)
            await scope.open_once(recipe, self._asker)
        return cast("T", scope.instances[kind])


def _wait_for(opening: _Opening, asker: _Opening | None) -> None:
    """Note that `asker` waits for `opening`, unless that would never end."""
    if asker is None:
        return
    if circle := opening.path_to(asker):
        names = " -> ".join(name_of(kind) for kind in (asker.kind, *circle))
        raise ConfigurationError(f"Services ask for each other in a circle, {names}: let one of them not ask.")
    asker.asks.append(opening)


def _too_late(kind: type) -> ServicesClosedError:
    return ServicesClosedError(
        f"The service {name_of(kind)} was asked for after its call or its worker ended: ask before that, and keep no "
        f"context beyond its call."
    )
