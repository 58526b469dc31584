"""The mutants fit the code that they change, so that `make mutants` can show what notices them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import FOLDER, ROOT, ROWS, all_mutants
from tests.mutants.patch import Mutant, PatchError, read_patch

UNDER_FAULTS = [read_patch(path) for path in sorted((ROOT / "ops/chaos/mutants").glob("*.patch"))]
"""Those that are made under the chaos suite alone."""


@pytest.mark.parametrize("mutant", [*all_mutants(), *UNDER_FAULTS], ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code_and_is_python(mutant: Mutant) -> None:
    for file, text in mutant.files(ROOT).items():
        assert file.startswith("grundlag_bus/")
        compile(text, file, "exec")


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_the_tests_that_notice_a_mutant_are_there(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name.partition("[")[0] in functions, test


def test_every_fault_has_a_mutant_and_every_mutant_a_fault() -> None:
    assert {mutant.fault for mutant in all_mutants()} == set(ROWS)


# --- patches ----------------------------------------------------------------------------------------------------------

PATCH = """\
fault: somewhere 1
mistake: Say no.
test: tests/test_it.py::test_it
--- a/said.py
+++ b/said.py
@@ -7,2 +7,2 @@
 def said():
-    return "yes"
+    return "no"
"""
SAID = 'import this\n\n\ndef said():\n    return "yes"\n'


def mutant_of(patch: str, folder: Path, said: str) -> Mutant:
    (folder / "said.py").write_text(said)
    (folder / "it.patch").write_text(patch)
    return read_patch(folder / "it.patch")


def test_a_hunk_is_found_wherever_its_lines_are(tmp_path: Path) -> None:
    mutant = mutant_of(PATCH, tmp_path, SAID)
    assert (mutant.name, mutant.fault, mutant.tests) == ("it", "somewhere 1", ("tests/test_it.py::test_it",))
    assert mutant.files(tmp_path) == {"said.py": SAID.replace("yes", "no")}


@pytest.mark.parametrize("said", ["", SAID.replace("yes", "maybe"), SAID + "\n\n" + SAID, SAID.replace("def", " def")])
def test_a_hunk_that_is_not_there_exactly_once_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(PatchError, match=r"it\.patch .* said\.py"):
        mutant_of(PATCH, tmp_path, said).files(tmp_path)


@pytest.mark.parametrize("left_out", ["fault", "mistake", "test", "+    return", "-    return"])
def test_a_patch_says_what_it_is_of_and_changes_something(tmp_path: Path, left_out: str) -> None:
    lines = [line for line in PATCH.splitlines(keepends=True) if not line.startswith(left_out)]
    if left_out == "-    return":
        lines = [line for line in lines if not line.startswith("+    return")]
    if left_out == "+    return":
        lines = [line.replace("@@ -7,2 +7,2 @@", "nonsense") for line in lines]
    with pytest.raises(PatchError):
        mutant_of("".join(lines), tmp_path, SAID)


def test_the_folder_holds_patches_by_what_is_wrong() -> None:
    assert all(path.stem.replace("-", "").isalnum() for path in FOLDER.glob("*.patch"))
