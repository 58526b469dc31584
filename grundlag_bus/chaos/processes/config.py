"""What a process of the fleet is told: a file of JSON, since every user of the machine sees its arguments."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from grundlag_bus.chaos.history import file_of

KEYS_FILE = "seal-keys.json"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything about one life of a process.

    run: tells the ids of this run from any other's; ledger: the address of the database; rate: calls a second;
    at_once: calls in flight; timeout: seconds until a call's deadline.
    """

    url: str
    namespace: str
    folder: str
    name: str
    life: int
    seed: int
    run: str
    ledger: str
    lease: float
    kept_share: float
    rate: float
    at_once: int
    timeout: float

    @property
    def history(self) -> Path:
        return file_of(Path(self.folder), self.name, self.life)

    @property
    def over(self) -> Path:
        """Once this file is there, no caller begins another call."""
        return Path(self.folder) / "over"

    @property
    def keys(self) -> Path:
        return Path(self.folder) / KEYS_FILE

    @property
    def file(self) -> Path:
        return Path(self.folder) / f"{self.name}.{self.life}.config"

    @property
    def log(self) -> Path:
        return Path(self.folder) / f"{self.name}.log"

    def open_log(self) -> IO[bytes]:
        """Open what every life of the process says on standard output and standard error."""
        return self.log.open("ab")

    def write(self) -> None:
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(self))

    @classmethod
    def read(cls, file: str) -> Config:
        return cls(**orjson.loads(Path(file).read_bytes()))
