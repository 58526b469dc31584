"""The models of the contract registry: every kind of data that has to cross the seam unchanged."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, computed_field, field_validator


class Nothing(BaseModel):
    pass


class Anything(BaseModel):
    value: Any = None


class Add(BaseModel):
    a: int
    b: int


class Sum(BaseModel):
    sum: int


class Even(BaseModel):
    """Its schema says integer; that it must be even is known where the model is."""

    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


class Fragile(BaseModel):
    """Its validator has a defect of its own: what it raises is no ValueError, or says what is no text."""

    n: int

    @field_validator("n")
    @classmethod
    def _check(cls, n: int) -> int:
        if n == 1:
            raise LookupError(f"no entry {n}")
        raise ValueError("no file \ud800")


class Target(BaseModel):
    id: str


class Approval(BaseModel):
    approved: bool
    note: Any = None


class Decided(BaseModel):
    """What an action knew when it went on after its interrupt."""

    approved: bool
    by: str | None
    state: Any
    call_id: str


class Spoil(BaseModel):
    """`what` is a name of `tests.support.hazards`, `where` the place that the action puts it."""

    where: Literal["result", "data", "state", "item", "details", "message"]
    what: str


class End(BaseModel):
    how: Literal["completed", "interrupted", "failed", "raised"]


class Seconds(BaseModel):
    seconds: float


class Length(BaseModel):
    length: int


class Named(BaseModel):
    name: str


class Where(BaseModel):
    """Where and with which context variable an action ran."""

    thread: str
    variable: str | None


class Scoped(BaseModel):
    """What two questions for the same services gave within one call."""

    same: bool
    number: int
    seen: str | None


class Recalled(BaseModel):
    types: list[str]
    data: list[Any]


class Colour(Enum):
    RED = "red"


class Everything(BaseModel):
    """One field of every kind that JSON has no word for."""

    model_config = ConfigDict(populate_by_name=True)

    at: AwareDatetime
    on: date
    clock: time
    lasts: timedelta
    amount: Decimal
    id: UUID
    colour: Colour
    pair: tuple[int, str]
    names: frozenset[str]
    aliased_field: int = Field(alias="aliasedField")
    keys_stay: dict[str, int]

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def doubled(self) -> int:
        return self.aliased_field * 2


EVERYTHING = Everything(
    at=datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
    on=date(2026, 3, 29),
    clock=time(9, 5, tzinfo=UTC),
    lasts=timedelta(hours=1, seconds=1.5),
    amount=Decimal("0.10"),
    id=UUID("12345678-1234-5678-1234-567812345678"),
    colour=Colour.RED,
    pair=(1, "one"),
    names=frozenset({"ada"}),
    aliased_field=21,
    keys_stay={"snake_case": 1, "camelCase": 2},
)


class Tree(BaseModel):
    """Refers to itself."""

    name: str
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Owner(BaseModel):
    """A discriminated union, also within lists and optional."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    others: list[Annotated[Cat | Dog, Field(discriminator="kind")]] | None = None


class Nested(BaseModel):
    """Unions within unions."""

    value: int | list[int | list[str | None]] | dict[str, bool | None] | None


class Optionals(BaseModel):
    x: int | None = None
    y: int | None = None


class Blob(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    content: bytes


class Told(BaseModel):
    """An event of the contract provider."""

    number: int
    about: Any = None


class Telling(BaseModel):
    """How often an action emits which event, and how it ends."""

    event: str = "told"
    times: int = 1
    how: str = "completed"
    data: Any = None
    spoil: str | None = None


class Troubles(BaseModel):
    """How often an action fails or defers before it completes, and how long it waits each time."""

    times: int
    after: float = 0
    kind: str = "connection"


class Started(BaseModel):
    call_id: str
    attempt: int
    deferred: Any = None
