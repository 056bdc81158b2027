"""What a person sees of a report and of a pipeline."""

import pytest

from rs_assets import Home, RunOptions, StreamBuilder
from rs_assets.errors import ConfigurationError


@pytest.fixture
def flow(tmp_path):
    stream = StreamBuilder.data_stream("shop", "slow").from_array([{"page": "/", "ms": n} for n in range(4)])
    stream.to_delta(tmp_path / "lake" / "all")
    return stream.filter("ms > 9").to_delta("slow").build()


def test_a_report_is_a_line_and_shows_its_tables(flow, tmp_path, driver):
    report = flow.run(RunOptions(home=Home(tmp_path), driver=driver))
    assert repr(report).startswith(
        "<RunReport shop.slow: 4 rows in, 4 out, 0 dead, 0 late, 0 groups open; 1 batches in "
    )
    for name in ("all_table", "all"):
        assert sorted(report.table(name)["ms"].to_pylist()) == [0, 1, 2, 3], name
    with pytest.raises(ConfigurationError, match=r"(?s)no table 'al'.*use one of: "):
        report.table("al")
    with pytest.raises(ConfigurationError, match="'slow' has got no rows yet"):
        report.table("slow")


def test_a_pipeline_is_a_line_and_a_drawing(flow):
    assert repr(flow) == "<Pipeline shop.slow: array -> all_table, slow_table>"
    assert flow._repr_markdown_().startswith("```mermaid\nflowchart LR\n")
