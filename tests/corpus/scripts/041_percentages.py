# task: Turn the votes into percentages with one decimal and say who won.
# expects: {"winner": "Blue", "shares": {"Blue": "47.6%", "Red": "33.3%", "Green": "19.0%"}, "turnout": 63}
votes = {"Red": 21, "Green": 12, "Blue": 30}
total = sum(votes.values())

ranking = sorted(votes.items(), key=lambda item: item[1], reverse=True)
shares = {name: f"{count / total:.1%}" for name, count in ranking}
winner, _ = max(votes.items(), key=lambda item: item[1])

{"winner": winner, "shares": shares, "turnout": total}
