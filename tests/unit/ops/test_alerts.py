"""What alerts and the README's table speak of is what a worker tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from grundlag_bus.telemetry import (
    CallBuried,
    CallEnded,
    CallSentOn,
    CallStarted,
    EnvelopeRefused,
    LedgerAnswered,
    LedgerAway,
    LedgerNoted,
    LoopBlocked,
    LoopTurned,
    ReplyLate,
)
from grundlag_bus.telemetry.exposition import expose
from grundlag_bus.telemetry.processes import ProcessMetrics
from grundlag_bus.telemetry.prometheus import PrometheusHook

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yaml"
README = (ROOT / "README.md").read_text()
OF = ("notes", "add", "main", "c1")
EVENTS = (
    CallStarted(*OF, 1, 1, queued=0.1, redelivered=True, lost=0),
    CallEnded(*OF, "failed", "internal", 0.1, 0.2),
    CallSentOn(*OF, "retry", 1.0),
    CallBuried(*OF, "attempts_exhausted"),
    EnvelopeRefused("no JSON"),
    ReplyLate("c1", "w1"),
    LedgerAnswered(0.01),
    LedgerAway(1.0),
    LedgerNoted("lease_lost"),
    LoopBlocked(1.0, "notes.add"),
    LoopTurned(0.0),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, set[str]]]:
    """Give each metric as the README names it, with its type and labels."""
    hook = PrometheusHook()
    for event in EVENTS:
        hook(event)
    written = (expose(hook.collectors), ProcessMetrics(tmp_path_factory.mktemp("counts")).expose())
    families = [family for page in written for family in text_string_to_metric_families(page.decode())]
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in families
    }


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_alerts_speak_of_metrics_and_labels_that_there_are(told: dict[str, tuple[str, set[str]]]) -> None:
    series = {
        name
        for metric, (kind, _) in told.items()
        for name in ([f"{metric}_{part}" for part in ("bucket", "count", "sum")] if kind == "histogram" else [metric])
    }
    labels = {label for _, of_metric in told.values() for label in of_metric} | {"le", "job"}
    rules = _rules()

    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        named = set(re.findall(r"grundlag_\w+", rule["expr"]))
        assert named, rule["alert"]
        assert named <= series, rule["alert"]
        for grouped in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            assert set(grouped.split(", ")) <= labels, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "what_to_do"}


def test_the_readme_names_every_metric_with_its_labels_and_no_other(told: dict[str, tuple[str, set[str]]]) -> None:
    rows = re.findall(r"^\| (`grundlag_[^|]*) \|([^|]*)\|", README, re.MULTILINE)
    named = {
        name: {label for label in labels.strip().split(", ") if label}
        for names, labels in rows
        for name in re.findall(r"grundlag_\w+", names)
    }

    assert named == {metric: labels for metric, (_, labels) in told.items()}
