# task: Add up the numbers 3, 8, 15, 16, 23, 42 with the add tool.
# expects: 107
numbers = [3, 8, 15, 16, 23, 42]

total = 0
for n in numbers:
    total = (await demoAdd(a=total, b=n))["sum"]

total
