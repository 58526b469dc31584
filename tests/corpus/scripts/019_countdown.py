# task: Count down from 5 and tell me the steps as one line.
steps = (await demoCountdown(start=5))["steps"]
print("Lift-off!" if steps else "Nothing to count")
{"line": " … ".join(str(s) for s in steps), "descending": steps == sorted(steps, reverse=True), "first": steps[0]}
