"""A provider: actions, entities and events under one id."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.action import Action, define_action, read_signature
from grundlag_bus.schema.manifest import EntityManifest, EventManifest, ProviderManifest
from grundlag_bus.schema.names import check_id
from grundlag_bus.schema.shape import Shape, make_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grundlag_bus.providers.disposition import Retry

DefinedT = TypeVar("DefinedT", "Action", "Entity", "Event")


@dataclass(frozen=True, slots=True)
class Entity:
    """A kind of thing that a provider keeps, described for whoever reads the manifest."""

    id: str
    name: str
    shape: Shape = field(repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """A kind of thing that happens in a provider, described for whoever reads the manifest."""

    id: str
    name: str
    shape: Shape = field(repr=False)


def undeclared_event(event_id: str) -> Event:
    """Make a kind of event of which nothing is known, and whose data may be any JSON."""
    return Event(event_id, event_id, make_shape({}, "serialization", of=f"event {event_id}"))


class Definitions(Mapping[str, DefinedT]):
    """What a provider defines of one kind, by id. Grows by `register`."""

    def __init__(self, provider_id: str, kind: str) -> None:
        self._provider_id = provider_id
        self._kind = kind
        self._defined: dict[str, DefinedT] = {}

    def register(self, definition: DefinedT) -> DefinedT:
        """Add a definition and return it. Raises ConfigurationError when the id is taken."""
        if definition.id in self._defined:
            raise ConfigurationError(
                f"Provider {self._provider_id} defines the {self._kind} {definition.id!r} twice: rename one of the two."
            )
        self._defined[definition.id] = definition
        return definition

    def __getitem__(self, id: str) -> DefinedT:  # noqa: A002  the field's name
        return self._defined[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._defined)

    def __len__(self) -> int:
        return len(self._defined)


class Provider:
    """Actions, entities and events under one id.

    id: a letter, then up to 39 letters, digits, `_` or `-`. Raises ConfigurationError.
    """

    def __init__(self, id: str, *, name: str, description: str | None = None) -> None:  # noqa: A002  the field's name
        self.id = check_id("provider", id)
        self.name = name
        self.description = description
        self.actions: Definitions[Action] = Definitions(id, "action")
        self.entities: Definitions[Entity] = Definitions(id, "entity")
        self.events: Definitions[Event] = Definitions(id, "event")

    def action(  # noqa: PLR0913  what an action is made of
        self,
        id: str,  # noqa: A002  the field's name
        *,
        name: str,
        answer: Any = None,
        lane: str = "main",
        retry: Retry | None = None,
        crashes: int = 3,
        rerun: bool = True,
        reads: Sequence[str] | None = None,
        idempotent: bool = False,
        parallel_safe: bool = False,
        idle_timeout: float | None = None,
    ) -> Callable[[Callable[..., Any]], Action]:
        """Make an action of the decorated function `(input)` or `(input, context)` and register it.

        The annotations give its input and output, the docstring its description. answer: the model of the answer, for
        an action that may raise ToolInterrupt. crashes: how often a call may be started when its workers die, the last
        time with nothing beside it; rerun: False ends such a call as `outcome_unknown` instead. The decorator returns
        the Action. Raises ConfigurationError.
        """
        scope = dict(sys._getframe(1).f_locals)  # noqa: SLF001  models defined beside an action, inside a function

        def define(function: Callable[..., Any]) -> Action:
            input_type, output_type = read_signature(function, scope, of=f"action {id} of provider {self.id}")
            return self.actions.register(
                define_action(
                    id=id,
                    name=name,
                    description=inspect.getdoc(function),
                    input=input_type,
                    output=output_type,
                    answer=answer,
                    execute=function,
                    lane=lane,
                    retry=retry,
                    crashes=crashes,
                    rerun=rerun,
                    reads=reads,
                    idempotent=idempotent,
                    parallel_safe=parallel_safe,
                    idle_timeout=idle_timeout,
                )
            )

        return define

    def entity(self, id: str, model: Any, *, name: str) -> Entity:  # noqa: A002  the field's name
        """Declare a kind of thing that the provider keeps. Raises ConfigurationError."""
        shape = make_shape(model, "serialization", of=f"entity {id} of provider {self.id}")
        return self.entities.register(Entity(check_id("entity", id), name, shape))

    def event(self, id: str, model: Any, *, name: str) -> Event:  # noqa: A002  the field's name
        """Declare a kind of thing that happens in the provider. Raises ConfigurationError."""
        shape = make_shape(model, "serialization", of=f"event {id} of provider {self.id}")
        return self.events.register(Event(check_id("event", id), name, shape))

    def find_event(self, event: Event | str) -> Event:
        """Return a kind of event that is declared here. Raises ConfigurationError for any other."""
        event_id = event if isinstance(event, str) else event.id
        declared = self.events.get(event_id)
        if declared is None or not (isinstance(event, str) or declared is event):
            raise ConfigurationError(
                f"Provider {self.id!r} declares no such event {event_id!r}: declare it with "
                f"provider.event({event_id!r}, Model, name=...), and emit only events of the action's own provider."
            )
        return declared

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of its actions, sorted."""
        return tuple(sorted({action.lane for action in self.actions.values()}))

    def to_manifest(self) -> ProviderManifest:
        """Describe the provider; function names are allocated by whoever reads the whole manifest."""
        return ProviderManifest(
            id=self.id,
            name=self.name,
            description=self.description,
            actions=tuple(action.to_manifest() for action in self.actions.values()),
            entities=tuple(
                EntityManifest(id=e.id, name=e.name, json_schema=e.shape.schema) for e in self.entities.values()
            ),
            events=tuple(EventManifest(id=e.id, name=e.name, json_schema=e.shape.schema) for e in self.events.values()),
        )
