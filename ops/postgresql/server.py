"""A private PostgreSQL server: a free port of 127.0.0.1 and a folder of its own, gone with whoever started it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ops.postgresql.programs import PostgresUnavailableError
from ops.rabbitmq.ports import free_ports, wait_until

if TYPE_CHECKING:
    from ops.postgresql.programs import Programs

USER, PASSWORD = "grundlag", "swordfish"
_START_SECONDS = 60.0


class PrivateServer:
    """Runs `postgres` as a child process, as another user when this one is root, whom it refuses.

    durable: what is committed is on the disk, as with a server that one keeps; tests are quicker without.
    """

    def __init__(self, programs: Programs, *, durable: bool = False) -> None:
        self._programs = programs
        self._durable = durable
        self._port = 0
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _unprivileged()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="grundlag-postgresql-"))
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self, *, at_once: bool = False) -> None:
        """Shut it down, and end its connections; it keeps its port and its data. at_once: as if it were killed."""
        self._end(signal.SIGQUIT if at_once else signal.SIGINT)

    def close(self) -> None:
        self.stop(at_once=True)  # nothing is to be kept
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _make(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            if not self._programs.is_system:
                self._programs = self._programs.copied_to(self._folder / "programs")
            for path in (self._folder, secret):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
        made = self._run(
            *("initdb", "--pgdata", str(self._data), f"--username={USER}", "--pwfile", str(secret)),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
        )
        if made.returncode:
            raise PostgresUnavailableError(f"initdb of {self._programs.binaries} failed: {made.stderr.strip()}")
        (self._port,) = free_ports(1)

    def start(self) -> None:
        """Start it, at first and after `stop`, and return when it serves."""
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(
                    *("postgres", "-D", str(self._data), "-k", str(self._folder)),
                    *("-h", "127.0.0.1", "-p", str(self._port)),
                    *("-c", f"fsync={'on' if self._durable else 'off'}", "-c", "max_connections=200", "-c", "jit=off"),
                    before=_dies_with_us(),
                ),
                stdout=output,
                stderr=output,
                cwd="/",
                env=self._environment,
            )
        ask = ("pg_isready", "--quiet", "--host=127.0.0.1", f"--port={self._port}")
        process = self._process
        wait_until(lambda: process.poll() is not None or not self._run(*ask).returncode, seconds=_START_SECONDS)
        if self._run(*ask).returncode:
            raise PostgresUnavailableError(
                f"PostgreSQL of {self._programs.binaries} did not start: {log.read_text().strip()}"
            )

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = self._command(program, *arguments)
        return subprocess.run(command, capture_output=True, text=True, cwd="/", env=self._environment, check=False)

    def _command(self, program: str, *arguments: str, before: tuple[str, ...] = ()) -> list[str]:
        user = self._user
        as_user = (
            [] if user is None else ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        )
        return [*as_user, *before, str(self._programs.binaries / program), *arguments]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._programs.environment}


def _unprivileged() -> pwd.struct_passwd | None:
    """Choose who runs the server in root's place; `postgres` has to be known by name to the system."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresUnavailableError("PostgreSQL refuses root, and there is no user 'nobody' here: run as another user.")


def _dies_with_us() -> tuple[str, ...]:
    """Let the kernel shut the server down when whoever started it is killed."""
    return ("setpriv", "--pdeathsig=QUIT") if shutil.which("setpriv") else ()
