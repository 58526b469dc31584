# task: Keep doubling 1 with the add tool until it is over 1000 and return all steps.
# expects: [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
value = 1
steps = []
while (value := (await demoAdd(a=value, b=value))["sum"]) <= 1000:
    steps.append(value)
steps.append(value)
steps
