# task: Who is in both teams, who only in one, and which teams is each person in?
# expects: {"both": ["Ben", "Cleo"], "onlyDev": ["Ann"], "onlyOps": ["Dan"], "all": 4, "teams": {"Ann": ["dev"], "Ben": ["dev", "ops"], "Cleo": ["dev", "ops"], "Dan": ["ops"]}}
teams = {"dev": ["Ann", "Ben", "Cleo"], "ops": ["Ben", "Cleo", "Dan"]}
dev, ops = set(teams["dev"]), set(teams["ops"])

membership: dict[str, list[str]] = {}
for team, members in teams.items():
    for person in members:
        membership.setdefault(person, []).append(team)

{
    "both": sorted(dev & ops),
    "onlyDev": sorted(dev - ops),
    "onlyOps": sorted(ops - dev),
    "all": len(dev | ops),
    "teams": dict(sorted(membership.items())),
}
