"""Where RabbitMQ comes from on a machine without Docker: its own package, or a Debian of its own in a folder.

A root is made by debootstrap and kept in the user's cache, one per broker version. Nothing is installed system-wide but
debootstrap itself. The mirror is the one that the host's own apt uses.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

APT = Path("/etc/apt")
SCRIPT = Path("/usr/share/debootstrap/scripts/sid")  # an older debootstrap does not know newer suites by name

# The broker's version by the Debian release that carries it.
SUITES = {"4.3": "forky", "3.10": "bookworm"}


class BrokerUnavailableError(Exception):
    """No broker can be had here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """RabbitMQ's programs: below `root`, or in the system itself where that is `/`."""

    root: Path
    version: str

    @property
    def is_system(self) -> bool:
        return self.root == Path("/")


def installed_broker(version: str) -> Installation | None:
    """Find the system's own rabbitmq-server, if it is of this version."""
    found = _installation(Path("/"))
    return found if found is not None and found.version.startswith(f"{version}.") else None


def broker_root(version: str) -> Installation:
    """Return the root that holds this version; make it, in about a minute, when it is not there yet."""
    root = cache_folder() / f"rabbitmq-{version}"
    with _only_one(root):
        if not root.exists():
            _make_root(root, version)
    found = _installation(root)
    if found is None:
        raise BrokerUnavailableError(f"{root} holds no RabbitMQ: remove that folder and try again.")
    return found


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "grundlag-bus"


def apt_mirror(apt: Path = APT, codename: str | None = None) -> str:
    """Read the address of the distribution's own archive from apt's sources, in either of their formats."""
    codename = codename or platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    wanted = {codename, "stable", "oldstable", "testing", "unstable", "sid"}
    for uri, suites in _apt_entries(apt):
        if wanted & set(suites):
            return _resolved(uri)
    raise BrokerUnavailableError(
        f"No source in {apt} is the archive of {codename}: "
        "name a broker with GRUNDLAG_TEST_AMQP_URL=amqp://user:password@host:5672/ instead."
    )


# --- apt's sources ----------------------------------------------------------------------------------------------------

_ONE_LINE = re.compile(r"^deb\s+(?:\[[^]]*]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+\S+", re.MULTILINE)


def _apt_entries(apt: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield address and suites of every enabled source of binary packages."""
    parts = apt / "sources.list.d"
    for file in sorted(parts.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = _fields(stanza)
            if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in {"no", "false"}:
                for uri in fields.get("uris", "").split():
                    yield uri, fields.get("suites", "").split()
    for file in (apt / "sources.list", *sorted(parts.glob("*.list"))):
        if file.exists():
            for match in _ONE_LINE.finditer(file.read_text()):
                yield match["uri"], [match["suite"]]


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _resolved(uri: str) -> str:
    """Follow apt's `mirror+file:` lists, which cloud images use, to the first address in them."""
    if not uri.startswith("mirror+file:"):
        return uri
    listed = Path(uri.removeprefix("mirror+file:").replace("///", "/"))
    return next(line.split()[0] for line in listed.read_text().splitlines() if line.strip() and line[0] != "#")


# --- making a root ----------------------------------------------------------------------------------------------------


def _installation(root: Path) -> Installation | None:
    found = sorted((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return Installation(root, found[-1].name.removeprefix("rabbitmq_server-")) if found else None


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Let one process at a time make this root; the others wait for it."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_root(root: Path, version: str) -> None:
    suite = SUITES[version]
    _ensure_debootstrap(version)
    mirror = apt_mirror()
    log = root.with_name(f"{root.name}.log")
    for abandoned in root.parent.glob(f"{root.name}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    # Made under another name and renamed: a root is there as a whole or not at all.
    unfinished = Path(tempfile.mkdtemp(prefix=f"{root.name}-", dir=root.parent))
    unfinished.chmod(0o755)
    print(f"Installing RabbitMQ {version} into {root}, once (about a minute; {log}) ...", file=sys.stderr, flush=True)
    try:
        with log.open("w") as output:
            # Mounts and daemons of the installation end with its namespaces.
            done = subprocess.run(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                    *("debootstrap", "--variant=minbase", "--include=rabbitmq-server,ca-certificates"),
                    *(suite, str(unfinished), mirror, str(SCRIPT)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode or _installation(unfinished) is None:
            raise BrokerUnavailableError(
                f"Installing RabbitMQ {version} failed, see {log}: mend what it says, start Docker, "
                "or name a broker with GRUNDLAG_TEST_AMQP_URL=amqp://user:password@host:5672/."
            )
        (unfinished / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        for package in (unfinished / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        unfinished.rename(root)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _ensure_debootstrap(version: str) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BrokerUnavailableError(
            f"No RabbitMQ {version} was found here, and installing one needs root and apt: start Docker, install "
            f"rabbitmq-server {version}, or name a broker with GRUNDLAG_TEST_AMQP_URL=amqp://user:password@host:5672/."
        )
    if shutil.which("debootstrap") is None:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True, env=quiet, stdout=sys.stderr)
        subprocess.run(
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", "debootstrap"],
            check=True,
            env=quiet,
            stdout=sys.stderr,
        )
