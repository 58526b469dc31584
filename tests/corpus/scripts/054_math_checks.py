# task: Check whether the shares add up to one, and give me gcd, lcm, factorial and the distance of two points.
# expects: {"close": true, "exact": false, "gcd": 12, "lcm": 72, "factorial": 720, "distance": 5.0, "combinations": 10, "floor": -3, "ceil": -2}
import math

shares = [0.1] * 10
{
    "close": math.isclose(sum(shares), 1.0, rel_tol=1e-9),
    "exact": shares[0] + shares[1] + shares[2] == 0.3,
    "gcd": math.gcd(24, 36),
    "lcm": math.lcm(24, 36),
    "factorial": math.factorial(6),
    "distance": math.hypot(3, 4),
    "combinations": math.comb(5, 2),
    "floor": math.floor(-2.5),
    "ceil": math.ceil(-2.5),
}
