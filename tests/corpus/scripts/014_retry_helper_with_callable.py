# task: Write a retry helper and use it for a call that fails twice before it succeeds.
# expects: {"value": 42, "tries": 3}
from collections.abc import Awaitable, Callable
from typing import Any

state = {"tries": 0}


async def flaky() -> int:
    state["tries"] += 1
    if state["tries"] < 3:
        await demoFail("temporarily_down", "Please wait", retryable=True)
    return (await demoAdd(a=40, b=2))["sum"]


async def with_retry(call: Callable[[], Awaitable[Any]], attempts: int = 5, pause: float = 0.01) -> Any:
    for attempt in range(1, attempts + 1):
        try:
            return await call()
        except RuntimeError as error:
            if attempt == attempts:
                raise
            print(f"Attempt {attempt}/{attempts}: {error}")
            await demoSleep(pause * attempt)


value = await with_retry(flaky)
{"value": value, "tries": state["tries"]}
