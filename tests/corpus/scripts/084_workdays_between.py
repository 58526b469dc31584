# task: How many working days are there from 14 to 30 September 2026 (inclusive), and what are the dates of all Wednesdays?
# expects: {"workdays": 13, "wednesdays": ["16.09.", "23.09.", "30.09."], "isoWeeks": [38, 39, 40]}
from datetime import date, timedelta

start, end = date(2026, 9, 14), date(2026, 9, 30)
days = [start + timedelta(days=n) for n in range((end - start).days + 1)]

{
    "workdays": sum(1 for d in days if d.isoweekday() <= 5),
    "wednesdays": [d.strftime("%d.%m.") for d in days if d.weekday() == 2],
    "isoWeeks": sorted({d.isocalendar().week for d in days}),
}
