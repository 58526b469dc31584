# task: Split the eight people into random pairs and make sure nobody is left out.
# expects: {"pairs": 4, "everyone": true}
import random

people = ["Ann", "Ben", "Cleo", "Dan", "Eve", "Fay", "Gus", "Hal"]
rng = random.Random(2026)
shuffled = people.copy()
rng.shuffle(shuffled)
pairs = list(zip(shuffled[::2], shuffled[1::2], strict=True))
for first, second in pairs:
    print(f"{first} & {second}")

{"pairs": len(pairs), "everyone": sorted(p for pair in pairs for p in pair) == people}
