"""A report on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from grundlag_bus.chaos.plot import bars, columns, strip
from grundlag_bus.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console

    from grundlag_bus.chaos.report import Report

_HEIGHT = 8
_NAMES = 24


def print_report(report: Report) -> None:
    out = console()
    _print_plot(out, report)
    figures = Table(box=None, show_header=False, pad_edge=False)
    figures.add_column()
    figures.add_column()
    for name, value in report.rows():
        figures.add_row(name, value)
    out.print(figures)
    out.print()
    faults = Table("fault", "times", "worst recovery", "bound", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in report.verdict.recoveries:
        faults.add_row(each.fault, f"{each.count}", each.told, f"{each.bound:g} s")
    if report.verdict.recoveries:
        out.print(faults)
    for name, why in report.left_out.items():
        out.print(f"left out: {name}, since {why}", soft_wrap=True)
    for line in report.told():
        out.print(f"BROKEN  {line}", soft_wrap=True, style="bold red")
    out.print("Every promise was kept." if report.kept else f"{len(report.verdict.broken)} times a promise was broken.")


def _print_plot(out: Console, report: Report) -> None:
    verdict = report.verdict
    completed = verdict.throughput.completed
    width = max(out.width - _NAMES - 2, 10)
    values = columns(completed, width)
    for row, line in enumerate(bars(values, _HEIGHT)):
        name = f"{max(values, default=0):.0f} calls/s" if row == 0 else ""
        out.print(f"{name:>{_NAMES}} {line}", soft_wrap=True, style="blue")
    for kind in sorted({mark.fault for mark in verdict.marks}):
        marks = [mark for mark in verdict.marks if mark.fault == kind]
        line = strip(marks, begin=verdict.throughput.begin, seconds=len(completed), width=width)
        out.print(f"{kind[:_NAMES]:>{_NAMES}} {line}", soft_wrap=True, style="red")
    out.print(f"{'':>{_NAMES}} 0 s{f'{len(completed)} s':>{max(len(values) - 3, 1)}}", soft_wrap=True)
    out.print()
