"""A report as one HTML file that needs nothing else: the figures, and throughput over time with the faults marked."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grundlag_bus.chaos.checker import Throughput
    from grundlag_bus.chaos.field import Mark
    from grundlag_bus.chaos.report import Report

_WIDTH, _HEIGHT, _ROW, _LEFT = 1100, 240, 16, 170

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>grundlag-bus chaos, seed {seed}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1140px; color: #222; background: #fff }}
table {{ border-collapse: collapse; margin: 1rem 0 }} td, th {{ padding: .15rem 1.2rem .15rem 0; text-align: left }}
td + td {{ font-variant-numeric: tabular-nums }} .broken {{ color: #a40000 }} svg {{ max-width: 100% }}
text {{ font: 11px system-ui, sans-serif; fill: #444 }}
</style>
<h1 class="{state}">{title}</h1>
<p>{seconds:g} s on {broker}, seed {seed}.</p>
{broken}
{plot}
<table>{figures}</table>
<table><tr><th>fault</th><th>times</th><th>worst recovery</th><th>bound</th></tr>{faults}</table>
{left_out}
</html>
"""


def page(report: Report) -> str:
    """Write the file."""
    verdict = report.verdict
    faults = (
        (
            each.fault,
            f"{each.count}",
            "not told" if each.seconds is None else f"{each.seconds:.1f} s",
            f"{each.bound:g} s",
        )
        for each in verdict.recoveries
    )
    return _PAGE.format(
        state="kept" if report.kept else "broken",
        title="Every promise was kept" if report.kept else f"{len(verdict.broken)} times a promise was broken",
        seed=report.seed,
        seconds=report.seconds,
        broker=escape(report.broker),
        broken=_list("broken", report.told()),
        plot=plot(verdict.throughput, verdict.marks),
        figures=_rows(report.rows()),
        faults=_rows(faults),
        left_out=_list("", (f"Left out: {name}, since {why}" for name, why in report.left_out.items())),
    )


def plot(throughput: Throughput, marks: Sequence[Mark]) -> str:
    """Draw completed calls a second as SVG, with a row for each kind of fault below."""
    completed = throughput.completed
    if not completed:
        return "<p>No call completed.</p>"
    kinds = sorted({mark.fault for mark in marks})
    top, scale = max(completed), (_WIDTH - _LEFT) / len(completed)
    height = _HEIGHT + _ROW * len(kinds) + 30
    points = " ".join(f"{_LEFT + (i + 0.5) * scale:.1f},{_y(count, top):.1f}" for i, count in enumerate(completed))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="completed calls a second">',
        *(_band(mark, throughput.begin, scale, kinds, len(completed)) for mark in marks),
        f'<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="{points}"/>',
        f'<text x="{_LEFT - 8}" y="20" text-anchor="end">{top} calls/s</text>',
        f'<text x="{_LEFT - 8}" y="{_HEIGHT}" text-anchor="end">0</text>',
    ]
    parts += (
        f'<text x="{_LEFT - 8}" y="{_HEIGHT + _ROW * (row + 1)}" text-anchor="end">{escape(kind)}</text>'
        for row, kind in enumerate(kinds)
    )
    step = max(len(completed) // 10, 1)
    parts += (
        f'<text x="{_LEFT + second * scale:.1f}" y="{height - 6}">{second} s</text>'
        for second in range(0, len(completed), step)
    )
    return "\n".join([*parts, "</svg>"])


def _y(count: float, top: int) -> float:
    return 12 + (_HEIGHT - 12) * (1 - count / top)


def _band(mark: Mark, begin: float, scale: float, kinds: Sequence[str], seconds: int) -> str:
    start = _LEFT + max(mark.at - begin, 0) * scale
    lasts = (seconds if mark.until is None else mark.until - begin) - (mark.at - begin)
    width, row = max(lasts * scale, 1.5), _HEIGHT + _ROW * kinds.index(mark.fault) + 6
    told = f"<title>{escape(mark.fault)} of {escape(mark.target)}, {mark.at - begin:.1f} s</title>"
    shade = f'<rect x="{start:.1f}" y="12" width="{width:.1f}" height="{_HEIGHT - 12}" fill="#d88" opacity=".25"/>'
    box = f'<rect x="{start:.1f}" y="{row}" width="{width:.1f}" height="{_ROW - 6}" fill="#b33"/>'
    return f"<g>{told}{shade}{box}</g>"


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)


def _list(kind: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>' if items else ""
