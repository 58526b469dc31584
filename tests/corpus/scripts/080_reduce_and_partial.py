# task: Build a text pipeline (trim, collapse spaces, title case) and run it over the names.
# expects: {"names": ["Ada Lovelace", "Alan Turing"], "product": 120, "powers": [1, 4, 9]}
import re
from functools import partial, reduce

collapse = partial(re.sub, r"\s+", " ")
pipeline = [str.strip, collapse, str.title]


def apply_all(text: str) -> str:
    return reduce(lambda acc, step: step(acc), pipeline, text)


def power(base: int, exponent: int) -> int:
    return base**exponent


square = partial(power, exponent=2)
{
    "names": [apply_all(n) for n in ["  ada   LOVELACE ", "alan\tturing"]],
    "product": reduce(lambda a, b: a * b, [1, 2, 3, 4, 5]),
    "powers": list(map(square, [1, 2, 3])),
}
