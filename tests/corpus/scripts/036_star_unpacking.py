# task: Split the scores into best, worst and the middle ones and merge default settings with mine.
# expects: {"best": 98, "worst": 12, "middle": [77, 60, 45], "settings": {"lang": "de", "tz": "UTC", "theme": "dark"}, "all": [0, 12, 45, 60, 77, 98, 100]}
scores = [45, 98, 12, 77, 60]
best, *middle, worst = sorted(scores, reverse=True)

defaults = {"lang": "en", "tz": "UTC"}
mine = {"lang": "de", "theme": "dark"}

{
    "best": best,
    "worst": worst,
    "middle": middle,
    "settings": {**defaults, **mine},
    "all": [0, *sorted(scores), 100],
}
