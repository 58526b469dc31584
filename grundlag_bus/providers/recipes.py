"""Recipes: how one service is made. Instances, and who may ask for them, are in `services`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from grundlag_bus.providers.services import Services

T = TypeVar("T")
ServiceScope: TypeAlias = Literal["worker", "call"]
Made: TypeAlias = T | Awaitable[T] | AsyncIterator[T] | AbstractAsyncContextManager[T]
ServiceRecipe: TypeAlias = T | Callable[[], Made[T]] | Callable[["Services"], Made[T]]
Closer: TypeAlias = AbstractAsyncContextManager[Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one service is made, normalised to a function of `Services`."""

    kind: type
    scope: ServiceScope
    make: Callable[[Services], Any]

    @classmethod
    def read(cls, kind: type, recipe: Any, scope: ServiceScope) -> Recipe:
        if _is_ready(kind, recipe):
            return cls(kind, scope, lambda _: _Ready(recipe))
        if not callable(recipe):
            raise ConfigurationError(
                f"The recipe of the service {name_of(kind)} is a {name_of(type(recipe))}: "
                f"give a function, a class or an instance of {name_of(kind)}."
            )
        make = asynccontextmanager(recipe) if inspect.isasyncgenfunction(recipe) else recipe
        if _takes_services(kind, recipe):
            return cls(kind, scope, make)
        return cls(kind, scope, lambda _: make())

    async def open(self, services: Services) -> tuple[Any, Closer | None]:
        """Make the instance and what closes it; what is half made is closed when that fails."""
        made = self.make(services)
        if isinstance(made, _Ready):
            return made.instance, None
        if inspect.isawaitable(made) and not isinstance(made, AbstractAsyncContextManager):
            made = await made
        if not isinstance(made, AbstractAsyncContextManager):
            self._check(made)
            return made, None
        instance = await made.__aenter__()
        try:
            self._check(instance)
        except ConfigurationError as error:
            await leave(made, error)
            raise
        return instance, made

    def _check(self, instance: object) -> None:
        if not _fits(self.kind, instance):
            raise ConfigurationError(
                f"The recipe of the service {name_of(self.kind)} made a {name_of(type(instance))}: "
                f"it has to return or yield a {name_of(self.kind)}."
            )


@dataclass(frozen=True, slots=True)
class _Ready:
    """An instance that its owner closes."""

    instance: Any


async def leave(closer: Closer | None, error: BaseException | None) -> None:
    if closer is not None:
        await closer.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)


def _is_ready(kind: type, recipe: object) -> bool:
    """Tell an instance of `kind` from a function or class that makes one."""
    if inspect.isroutine(recipe) or inspect.isclass(recipe):
        return False
    try:
        return isinstance(recipe, kind)
    except TypeError:  # a protocol that cannot be checked at run time
        return not callable(recipe)


def _fits(kind: type, made: object) -> bool:
    try:
        return isinstance(made, kind)
    except TypeError:  # a protocol that cannot be checked at run time
        return True


def _takes_services(kind: type, recipe: Callable[..., Any]) -> bool:
    """Tell whether a recipe takes the `Services`; refuse one that wants anything else."""
    try:
        parameters = inspect.signature(recipe).parameters.values()
    except ValueError:  # a class written in C
        return False
    wanted = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not wanted:
        return False
    (first, *more) = wanted
    named = first.annotation if isinstance(first.annotation, str) else name_of(first.annotation)
    untyped = first.annotation in (first.empty, Any)
    if more or first.kind is first.KEYWORD_ONLY or not (untyped or named.rpartition(".")[2] == "Services"):
        told = ", ".join(str(parameter) for parameter in wanted)
        raise ConfigurationError(
            f"The recipe of the service {name_of(kind)} takes ({told}): "
            f"it may take nothing, or the Services to make it from; wrap it in a function that fills in the rest."
        )
    return True


def name_of(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or repr(kind)
