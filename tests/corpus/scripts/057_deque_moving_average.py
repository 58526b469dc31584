# task: The moving average over three days of my step counts.
# expects: [8000.0, 9000.0, 8333.3, 9000.0, 8666.7]
from collections import deque

counts = [8000, 10000, 7000, 10000, 9000]
window: deque[int] = deque(maxlen=3)
averages = []
for count in counts:
    window.append(count)
    averages.append(round(sum(window) / len(window), 1))
averages
