# task: Represent time slots as immutable records with helper methods and tell me which candidates do not overlap the busy slot.
# expects: ["08:00-09:00", "10:30-11:00"]
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    start: int
    end: int

    def overlaps(self, other: "Slot") -> bool:
        return self.start < other.end and other.start < self.end

    def label(self) -> str:
        def clock(minutes: int) -> str:
            return f"{minutes // 60:02d}:{minutes % 60:02d}"

        return f"{clock(self.start)}-{clock(self.end)}"


busy = Slot(9 * 60, 10 * 60 + 30)
candidates = [Slot(480, 540), Slot(530, 560), Slot(630, 660), Slot(600, 700)]

[slot.label() for slot in candidates if not slot.overlaps(busy)]
