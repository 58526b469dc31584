# task: Grade the results: below 50 F, from 50 D, from 65 C, from 80 B, from 90 A.
# expects: {"grades": {"Ann": "A", "Ben": "F", "Cleo": "C", "Dan": "B"}, "distribution": {"A": 1, "B": 1, "C": 1, "F": 1}}
import bisect
from collections import Counter

BREAKPOINTS = [50, 65, 80, 90]
GRADES = "FDCBA"


def grade(score: int) -> str:
    return GRADES[bisect.bisect_right(BREAKPOINTS, score)]


results = {"Ann": 93, "Ben": 49, "Cleo": 65, "Dan": 89}
grades = {name: grade(score) for name, score in results.items()}
{"grades": grades, "distribution": dict(sorted(Counter(grades.values()).items()))}
