# task: Sum the numbers 1 to 20 by adding neighbours in parallel, level by level, and tell me how many levels it took.
# expects: {"sum": 210, "levels": 5}
import asyncio


async def add(pair: list[int]) -> int:
    if len(pair) == 1:
        return pair[0]
    result = await demoAdd(pair[0], pair[1])
    return result["sum"]


async def main() -> dict[str, int]:
    level = list(range(1, 21))
    levels = 0
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = await asyncio.gather(*[add(p) for p in pairs])
        levels += 1
    return {"sum": level[0], "levels": levels}


await main()
