# task: Work through the numbers 1 to 5, note progress as you go, and return the squares.
# expects: {"1": 1, "2": 4, "3": 9, "4": 16, "5": 25}
squares: dict[str, int] = {}
for i in range(1, 6):
    squares[str(i)] = i**2
    print("step", i, "of", 5, sep=" ", end="\n")
    print(f"{i}² = {i**2:>3}")

print("done:", squares)
squares
