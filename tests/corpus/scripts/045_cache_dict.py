# task: Sum pairs from the list with the add tool, but never call it twice for the same pair.
# expects: {"sums": [3, 7, 3, 11, 7], "calls": 3}
cache: dict[tuple[int, int], int] = {}
calls = 0


async def cached_add(a: int, b: int) -> int:
    global calls
    key = (min(a, b), max(a, b))
    if key not in cache:
        calls += 1
        cache[key] = (await demoAdd(a=a, b=b))["sum"]
    return cache[key]


pairs = [(1, 2), (3, 4), (2, 1), (5, 6), (4, 3)]
sums = []
for a, b in pairs:
    sums.append(await cached_add(a, b))

{"sums": sums, "calls": calls}
