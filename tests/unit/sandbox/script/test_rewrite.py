from __future__ import annotations

import pytest

from grundlag_bus.sandbox.script.rewrite import rewritten

MAIN = "async def main():\n    return 1\n\n"


@pytest.mark.parametrize(
    ("source", "executed"),
    [
        (f"{MAIN}main()\n", f"{MAIN}await main()\n"),
        (f"{MAIN}main()  # go\n", f"{MAIN}await main()  # go\n"),
        (f"{MAIN}await main()\n", f"{MAIN}await main()\n"),
        ("def main():\n    return 1\n\nmain()\n", "def main():\n    return 1\n\nmain()\n"),
        (f"{MAIN}if __name__ == '__main__':\n    main()\n", f"{MAIN}\nawait main()\n"),
        ('x = 1\nif __name__ == "__main__":\n    x += 1\n\n    x\n', "x = 1\n\nx += 1\n\nx\n"),
        ("if __name__ == '__main__':\n    x = 1\nx\n", "if __name__ == '__main__':\n    x = 1\nx\n"),
        ("# first\nfrom __future__ import annotations\n1", "# first\n\n1"),
        ('x = """\nfrom __future__ import annotations\n"""\nx', 'x = """\nfrom __future__ import annotations\n"""\nx'),
    ],
)
def test_habits_are_put_so_that_they_give_a_value_and_lines_keep_their_numbers(source: str, executed: str) -> None:
    assert rewritten(source) == (executed, "")
    assert executed.count("\n") == source.count("\n")


def test_names_for_annotations_are_declared_to_the_type_check_alone() -> None:
    executed, declared = rewritten("from collections.abc import Iterable, Callable  # for types\n1")
    assert executed == "\n1"
    assert declared == (
        "from collections.abc import Callable as Callable\nfrom collections.abc import Iterable as Iterable\n"
    )
