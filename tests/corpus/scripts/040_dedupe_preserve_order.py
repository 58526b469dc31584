# task: Remove duplicate attendees (ignoring case and spaces) and keep the first spelling.
# expects: {"unique": ["Ada Lovelace", "Bob", "Grace Hopper"], "removed": 3}
attendees = ["Ada Lovelace", "bob ", " ada lovelace", "Bob", "Grace Hopper", "GRACE HOPPER"]

seen: set[str] = set()
unique: list[str] = []
for name in attendees:
    key = name.strip().casefold()
    if key in seen:
        continue
    seen.add(key)
    unique.append(name.strip().title() if name.islower() else name.strip())

{"unique": unique, "removed": len(attendees) - len(unique)}
