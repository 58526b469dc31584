# task: Run five calls side by side of which two fail; give me the successes and the failures apart.
# expects: {"ok": {"a": 1, "c": 3, "e": 5}, "failed": {"b": "not_found", "d": "out_of_stock"}}
import asyncio
from typing import Any


async def attempt(name: str, value: int, code: str | None) -> tuple[str, Any, str | None]:
    try:
        if code is not None:
            await demoFail(code=code, message=f"{name} is not to be had")
        result = await demoEcho(value=value)
        return name, result["value"], None
    except RuntimeError as error:
        return name, None, str(error).split(":", 1)[0]


outcomes = await asyncio.gather(
    attempt("a", 1, None),
    attempt("b", 2, "not_found"),
    attempt("c", 3, None),
    attempt("d", 4, "out_of_stock"),
    attempt("e", 5, None),
)

{
    "ok": {name: value for name, value, error in outcomes if error is None},
    "failed": {name: error for name, _, error in outcomes if error is not None},
}
