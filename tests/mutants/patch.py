"""Unified diffs that survive the lines moving around them: each hunk is found by its text, which must stand once.

The numbers of a hunk are for the reader and for `git apply`. A patch says in its first lines what it is about:

    fault: aio-pika 231
    mistake: Take the consumer of the lost connection for one of the new connection.
    test: tests/integration/test_rabbit_transport.py::test_after_a_cut_consumers_and_publishes_go_on
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class PatchError(Exception):
    """A patch cannot be read, or does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of a file, and what comes in their place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake in the product that some test must notice.

    fault: where users of another system reported it, as in `ROWS`; tests: of these at least one fails.
    """

    name: str
    fault: str
    mistake: str
    tests: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    def files(self, root: Path) -> dict[str, str]:
        """Return the files that this changes, by their path, as they are with the mistake. Raises PatchError."""
        changed: dict[str, str] = {}
        for hunk in self.hunks:
            text = changed.get(hunk.file)
            if text is None:
                path = root / hunk.file
                if not path.exists():
                    raise PatchError(f"{self.name}.patch changes {hunk.file}, which is not there: mend the patch.")
                text = path.read_text()
            # A line break before, so that a hunk begins where a line does.
            found = ("\n" + text).count("\n" + hunk.old)
            if found != 1:
                raise PatchError(
                    f"{self.name}.patch wants these lines once in {hunk.file}, and they are there {found} times: "
                    f"make the same mistake in what the code is now.\n{hunk.old}"
                )
            changed[hunk.file] = ("\n" + text).replace("\n" + hunk.old, "\n" + hunk.new)[1:]
        return changed


def read_patch(path: Path) -> Mutant:
    """Read a patch file. Raises PatchError."""
    said: dict[str, list[str]] = {"fault": [], "mistake": [], "test": []}
    hunks: list[Hunk] = []
    file = ""
    lines = path.read_text().splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        key, colon, value = line.partition(": ")
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif line.startswith("@@"):
            begin = at
            while at < len(lines) and not lines[at].startswith(("@@", "--- a/", "diff ")):
                at += 1
            hunks.append(_hunk(file, lines[begin:at]))
        elif colon and key in said and not file:
            said[key].append(value)
        elif line and not line.startswith(("--- a/", "diff ", "index ")):
            raise PatchError(f"{path.name} has a line that is of no patch: {line!r}.")
    if len(said["fault"]) != 1 or len(said["mistake"]) != 1 or not said["test"] or not hunks:
        raise PatchError(f"{path.name} must say one fault, one mistake and its tests, and have a hunk.")
    return Mutant(path.stem, said["fault"][0], said["mistake"][0], tuple(said["test"]), tuple(hunks))


def _hunk(file: str, lines: list[str]) -> Hunk:
    # An editor may have taken the blank from an empty line of context.
    marked = [line or " " for line in lines]
    old = "".join(f"{line[1:]}\n" for line in marked if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in marked if line[0] in " +")
    if old == new or not all(line[0] in " +-" for line in marked):
        raise PatchError(f"A hunk for {file} cannot be read: {lines[0]!r}.")
    return Hunk(file, old, new)
