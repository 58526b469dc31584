"""The manifest: what every provider offers, as data that tools are made from.

A worker announces its provider's part; whoever reads all parts allocates the function names. JSON Schemas in it are
carried as they are, and unknown fields are ignored, so that a rolling deploy tolerates newer peers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from grundlag_bus.errors import ConfigurationError, EnvelopeError
from grundlag_bus.schema import fields
from grundlag_bus.schema.names import Id, allocate_action_names
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Iterable

Schema = dict[str, Any]


class _Part(BaseModel):
    """Camel-cased in JSON, where what is None is left out: of the part's own fields, never inside a schema."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )

    def to_json(self) -> dict[str, Any]:
        told = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value is not None:
                told[field.alias or name] = _as_json(value)
        return told

    def encode(self) -> bytes:
        """Write it as JSON: the same bytes for the same content."""
        return orjson.dumps(self.to_json())

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read it. Raises EnvelopeError."""
        try:
            return cls.model_validate(fields.read(body))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "its root"
            raise EnvelopeError(f"the {cls.__name__} is malformed at {place}: {short(first['msg'])}") from error


def _as_json(value: Any) -> Any:
    if isinstance(value, _Part):
        return value.to_json()
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return value


class ActionManifest(_Part):
    """An action. `function_name` is "" in a provider's own part, where it is not allocated."""

    id: Id
    name: str
    description: str | None = None
    function_name: str = ""
    lane: Id = "main"
    idempotent: bool = False
    parallel_safe: bool = False
    reads: tuple[str, ...] | None = None
    input: Schema
    output: Schema
    answer: Schema | None = None

    def to_json(self) -> dict[str, Any]:
        told = super().to_json()
        if not self.function_name:
            del told["functionName"]
        return told


class EntityManifest(_Part):
    id: Id
    name: str
    json_schema: Schema = Field(alias="schema")


class EventManifest(_Part):
    id: Id
    name: str
    json_schema: Schema = Field(alias="schema")


class ProviderManifest(_Part):
    """One provider's part. ledger: the id of the one that its workers share, None where they have none."""

    id: Id
    name: str
    description: str | None = None
    ledger: str | None = None
    actions: tuple[ActionManifest, ...] = ()
    entities: tuple[EntityManifest, ...] = ()
    events: tuple[EventManifest, ...] = ()


class Manifest(_Part):
    """Every provider, with function names allocated."""

    v: Literal[1] = 1
    providers: tuple[ProviderManifest, ...] = ()

    def find(self, provider_id: str, action_id: str) -> ActionManifest | None:
        """Return an action by its ids."""
        return self._by_ids.get((provider_id, action_id))

    def find_function(self, function_name: str) -> tuple[ProviderManifest, ActionManifest] | None:
        """Return an action and its provider by function name."""
        return self._by_function.get(function_name)

    @cached_property
    def _by_ids(self) -> dict[tuple[str, str], ActionManifest]:
        return {(provider.id, action.id): action for provider in self.providers for action in provider.actions}

    @cached_property
    def _by_function(self) -> dict[str, tuple[ProviderManifest, ActionManifest]]:
        return {action.function_name: (provider, action) for provider in self.providers for action in provider.actions}


def build_manifest(parts: Iterable[ProviderManifest]) -> Manifest:
    """Join all providers' parts, sorted by id, and allocate the function names.

    Raises ConfigurationError when two parts have one id.
    """
    providers: dict[str, ProviderManifest] = {}
    for part in parts:
        if part.id in providers:
            raise ConfigurationError(f"Two providers have the id {part.id!r}: rename one of them.")
        providers[part.id] = part
    names = allocate_action_names((part.id, action.id) for part in providers.values() for action in part.actions)
    return Manifest(providers=tuple(_named(providers[id], names) for id in sorted(providers)))  # noqa: A001  the word


def _named(part: ProviderManifest, names: dict[tuple[str, str], str]) -> ProviderManifest:
    actions = tuple(action.model_copy(update={"function_name": names[part.id, action.id]}) for action in part.actions)
    return part.model_copy(update={"actions": actions})


# --- announcements ----------------------------------------------------------------------------------------------------


class Announcement(_Part):
    """What a worker tells the bus about a provider: its part, or that it is gone.

    revision: a newer one replaces an older one, whichever was written first.
    """

    v: Literal[1] = 1
    provider_id: Id
    revision: int = 0
    retired: bool = False
    provider: ProviderManifest | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.provider is None and not self.retired:
            raise ValueError("neither a provider nor its retirement")
        if self.provider is not None and self.provider.id != self.provider_id:
            raise ValueError("the provider has another id")
        return self


def current(entries: Iterable[bytes]) -> dict[str, Announcement]:
    """Return the announcement that counts of each provider, by its id: of the entries, oldest first, as bytes.

    The newest counts, unless its revision is older; a retired provider is left out, and so is an entry that cannot be
    read (the stream's first one is empty, and a newer version may write another kind).
    """
    newest: dict[str, Announcement] = {}
    for entry in entries:
        try:
            told = Announcement.decode(entry)
        except EnvelopeError:
            continue
        known = newest.get(told.provider_id)
        if known is None or told.revision >= known.revision:
            newest[told.provider_id] = told
    return {provider_id: told for provider_id, told in newest.items() if not told.retired}
