"""Where PostgreSQL comes from on a machine without Docker: installed, or the distribution's packages in a folder.

The packages are found and fetched by apt under lists and a cache of our own, and unpacked into the user's cache: this
needs no root, and changes nothing of the system. Debian's PostgreSQL finds its files relative to its programs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ops.rabbitmq.roots import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM = Path("/")
INSTEAD = (
    "start Docker, install PostgreSQL (`apt-get install postgresql`, or put initdb on PATH), "
    "or name a server with GRUNDLAG_TEST_POSTGRES_URL=postgresql://user:password@host:5432/postgres"
)
# The C library has to be that of the system's loader; a just-in-time compiler is as large as all the rest.
_LEFT_OUT = re.compile(r"libc6|libc-|libllvm|libz3|libperl")


class PostgresUnavailableError(Exception):
    """No server can be had here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """PostgreSQL's programs: below `root`, or in the system itself where that is `/`."""

    binaries: Path
    root: Path = SYSTEM

    @property
    def is_system(self) -> bool:
        return self.root == SYSTEM

    @property
    def environment(self) -> dict[str, str]:
        """What they need beside the environment of whoever starts them."""
        if self.is_system:
            return {}
        libraries = [
            str(folder) for pattern in ("usr/lib/*-linux-*", "lib/*-linux-*") for folder in self.root.glob(pattern)
        ]
        return {"LD_LIBRARY_PATH": ":".join(libraries)}

    def copied_to(self, folder: Path) -> Programs:
        """Copy them, for a user who may not enter the folder where they are."""
        shutil.copytree(self.root, folder, symlinks=True)
        return Programs(folder / self.binaries.relative_to(self.root), folder)


def installed_programs(system: Path = SYSTEM) -> Programs | None:
    """Find those of the system; Debian keeps them off the PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Programs(Path(on_path).resolve().parent)
    binaries = _newest(system)
    return None if binaries is None else Programs(binaries)


def unpacked_programs() -> Programs:
    """Return those in the user's cache; fetch and unpack them, in some seconds, when they are not there yet."""
    root = cache_folder() / "postgresql"
    with _only_one(root):
        if not root.exists():
            _make(root)
    binaries = _newest(root)
    if binaries is None:
        raise PostgresUnavailableError(f"{root} holds no PostgreSQL: remove that folder and try again.")
    return Programs(binaries, root)


def _newest(root: Path) -> Path | None:
    found = sorted(root.glob("usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Let one process at a time make this folder; the others wait for it."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(root: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PostgresUnavailableError(f"No PostgreSQL was found here, and fetching one needs apt: {INSTEAD}.")
    log = root.with_name(f"{root.name}.log")
    for abandoned in root.parent.glob(f"{root.name}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    print(f"Unpacking PostgreSQL into {root}, once (some seconds; {log}) ...", file=sys.stderr, flush=True)
    # Made under another name and renamed: it is there as a whole or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{root.name}-", dir=root.parent) as unfinished, log.open("w") as output:
        try:
            _Apt(Path(unfinished), output.fileno()).unpack(Path(unfinished) / "root")
        except (subprocess.CalledProcessError, LookupError) as error:
            raise PostgresUnavailableError(f"Fetching PostgreSQL failed ({error}), see {log}: {INSTEAD}.") from error
        (Path(unfinished) / "root").rename(root)


class _Apt:
    """apt with the system's sources and keys, and with lists and a cache of its own."""

    def __init__(self, folder: Path, log: int) -> None:
        self._lists = folder / "lists"
        self._cache = folder / "cache"
        self._log = log
        for place in (self._lists / "partial", self._cache / "archives/partial"):
            place.mkdir(parents=True)

    def unpack(self, root: Path) -> None:
        """Fetch the newest PostgreSQL with what the system lacks for it, and unpack that."""
        self._run("apt-get", "update", check=False)  # of several sources one may not answer
        told = self._run("apt-cache", "search", "--names-only", "^postgresql-[0-9]+$").stdout
        names = re.findall(r"^postgresql-\d+", told, re.MULTILINE)
        if not names:
            raise LookupError("no source of apt has a package postgresql-NN")
        newest = max(names, key=lambda name: int(name.rpartition("-")[2]))
        self._run("apt-get", "install", "--yes", "--no-install-recommends", "--download-only", newest)
        for package in sorted((self._cache / "archives").glob("*.deb")):
            if package.name.startswith(("lib", "postgresql-")) and not _LEFT_OUT.match(package.name):
                self._run("dpkg-deb", "--extract", str(package), str(root))
        shutil.rmtree(root / "usr/share/doc", ignore_errors=True)
        shutil.rmtree(root / "usr/share/locale", ignore_errors=True)

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        options = {
            "Dir::State::lists": self._lists,
            "Dir::Cache": self._cache,
            "Debug::NoLocking": "true",  # nothing is installed
            "APT::Sandbox::User": "",  # who may not enter the user's cache
            "Acquire::Languages": "none",
        }
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        command = [program, *(given if program.startswith("apt-") else ()), *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True, check=check
        )
        os.write(self._log, done.stdout.encode())
        return done
