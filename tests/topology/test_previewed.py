"""Steps that were only previewed are no mistake of the pipeline that is built after it."""

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError


@pytest.fixture
def hits(monkeypatch):
    """A source whose previews compute nothing."""
    monkeypatch.setattr("rs_assets.runtime.run.preview.preview", lambda *_: {"preview": [], "_rs_preview": []})
    monkeypatch.setattr("rs_assets.stream.data_stream.PREVIEW", "preview")
    return StreamBuilder.data_stream("test", "looked").from_array([{"ms": 1}])


def names(built):
    return [node.name for node in built.topology]


def test_a_step_that_was_only_previewed_is_left_out(hits):
    hits.filter("ms > 1").preview()
    assert names(hits.to_print().build()) == ["array", "print"]


def test_a_previewed_step_that_leads_to_a_sink_stays(hits):
    slow = hits.filter("ms > 1")
    slow.preview()
    fast = hits.filter("ms <= 1")
    assert names(slow.union(fast).to_print().build()) == ["array", "filter_1", "filter_2", "union_1", "print"]


def test_a_step_after_a_previewed_one_that_leads_nowhere_is_refused(hits):
    slow = hits.filter("ms > 1")
    slow.preview()
    slow.map("ms * 2 AS twice")
    with pytest.raises(TopologyError, match="go nowhere"):
        hits.to_print().build()


def test_a_preview_counts_until_the_next_build(hits):
    hits.filter("ms > 1").preview()
    hits.to_print().build()
    hits.filter("ms > 2")
    with pytest.raises(TopologyError, match="go nowhere"):
        hits.to_print().build()
