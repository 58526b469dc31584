"""What a scrape of `/metrics` says."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """The samples of one scrape, by name and labels."""

    def __init__(self, exposed: bytes) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(exposed.decode()) for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the one sample of this name and exactly these labels; 0 where there is none."""
        return next((s.value for s in self._samples if s.name == name and s.labels == labels), 0.0)

    def of(self, name: str) -> list[float]:
        """List the values of a name, whatever the labels."""
        return [sample.value for sample in self._samples if sample.name == name]

    def labels(self, name: str) -> list[dict[str, str]]:
        """List the labels of a name's samples."""
        return [dict(sample.labels) for sample in self._samples if sample.name == name]
