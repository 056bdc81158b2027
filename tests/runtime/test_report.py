"""What a person sees of a report and of a pipeline."""

from xml.etree import ElementTree as ET

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
    assert repr(report).startswith("<RunReport shop.slow: 4 rows in, 4 out, 0 dead, 0 late, 0 groups open; 1 batch in ")
    assert "all_table" in report._repr_html_()
    for name in ("all_table", "all"):
        assert sorted(report.table(name)["ms"].to_pylist()) == [0, 1, 2, 3], name
    with pytest.raises(ConfigurationError, match=r"(?s)no table 'al'.*use one of: "):
        report.table("al")
    with pytest.raises(ConfigurationError, match="'slow' has no rows yet"):
        report.table("slow")


def test_a_pipeline_is_a_line_and_a_drawing(flow):
    assert repr(flow) == "<Pipeline shop.slow: array -> all_table, slow_table>"
    drawing = ET.fromstring(flow._repr_html_().partition("<br>")[2])
    titles = [element.text for element in drawing.iter() if element.tag.endswith("title")]
    assert [title.partition(":")[0] for title in titles] == ["array", "all_table", "filter_1", "slow_table"]
    assert "ms > 9" in titles[2]
