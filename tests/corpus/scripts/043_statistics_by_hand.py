# task: Mean, median, standard deviation and the 90th percentile of my response times.
# expects: {"mean": 171.25, "median": 127.5, "stdev": 112.24, "p90": 430.0, "range": [95, 430]}
import math

times = [120, 135, 95, 110, 430, 150, 105, 225]


def mean(xs: list[float]) -> float:
    return sum(xs) / len(xs)


def median(xs: list[float]) -> float:
    s = sorted(xs)
    mid, odd = divmod(len(s), 2)
    return s[mid] if odd else (s[mid - 1] + s[mid]) / 2


def stdev(xs: list[float]) -> float:
    m = mean(xs)
    return math.sqrt(sum((x - m) ** 2 for x in xs) / (len(xs) - 1))


def percentile(xs: list[float], p: float) -> float:
    s = sorted(xs)
    return s[math.ceil(p / 100 * len(s)) - 1]


data = [float(t) for t in times]
{
    "mean": round(mean(data), 2),
    "median": median(data),
    "stdev": round(stdev(data), 2),
    "p90": percentile(data, 90),
    "range": [min(times), max(times)],
}
