"""The figures of long runs, and a short one of each kind on real Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.endurance import KINDS, Endured, Sample, endurance, plot

NOTHING = Sample(
    stages=0, stage_ms=100, python_mb=200, heap_mb=90, metaspace_mb=80, java_mb=500, python_threads=9, java_threads=60,
    python_files=20, java_files=300, checkpoint_files=50, catalog_files=60, home_mb=1,
)  # fmt: skip


def _grown(**growth: float) -> Endured:
    """Ten samples, each 100 stages after the one before; a field grows by so much in each."""
    samples = []
    for number in range(10):
        values = {name: getattr(NOTHING, name) + by * number for name, by in growth.items()}
        samples.append(replace(NOTHING, stages=100 * number, **values))
    return Endured(tuple(samples))


def test_growth_of_a_line_is_its_slope_by_a_thousand_stages():
    assert _grown(heap_mb=0.5).growth("heap_mb") == pytest.approx(5)
    assert _grown().growth("heap_mb") == 0


def test_findings_name_what_grows_by_more_than_it_may():
    assert _grown(heap_mb=0.2, java_threads=0.01).findings == []
    assert _grown(heap_mb=0.5, java_files=1).findings == [
        "heap_mb grows by 5.0 in 1,000 stages, 3 at most",
        "java_files grows by 10.0 in 1,000 stages, 0.5 at most",
    ]


def test_growth_of_the_first_samples_alone_is_no_finding():
    warm = _grown(heap_mb=10).samples
    flat = [replace(sample, heap_mb=130) for sample in warm[4:]]
    assert Endured((*warm[:4], *flat)).findings == []


def test_plot_has_a_bar_for_each_value():
    assert plot([0, 1, 2, 7]) == "▁▂▃█"
    assert plot([3, 3]) == "▁▁"


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_run_is_sampled_and_equals_the_model(kind, tmp_path, monkeypatch, capsys):
    # A JVM that is this young still grows.
    monkeypatch.setattr("tests.torture.endurance.MOST", {})
    assert endurance(tmp_path, kind, 6, 3) == 0
    shown = capsys.readouterr().out
    assert "6 stages: nothing grows, and the outputs are the model's" in shown
    assert len((tmp_path / f"endure-{kind}.jsonl").read_text().splitlines()) == 3
