# task: Make a leaderboard with shared ranks for equal points.
# expects: ["1. Mia (50)", "2. Ali (42)", "2. Zed (42)", "4. Kim (17)"]
from collections import namedtuple

Player = namedtuple("Player", ["name", "points"])
players = [Player("Kim", 17), Player("Zed", 42), Player("Mia", 50), Player("Ali", 42)]

ordered = sorted(players, key=lambda p: (-p.points, p.name))
lines = []
rank = 0
previous = None
for position, player in enumerate(ordered, start=1):
    if player.points != previous:
        rank, previous = position, player.points
    lines.append(f"{rank}. {player.name} ({player.points})")
lines
