# task: Draw a random winner and three random numbers between 1 and 49, without repetition.
import random

random.seed(7)
winner = random.choice(["Ann", "Ben", "Cleo"])
numbers = sorted(random.sample(range(1, 50), k=3))
{"winner": winner, "numbers": numbers, "distinct": len(set(numbers)) == 3}
