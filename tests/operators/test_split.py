"""split and select: branches of one stream, written from one query."""

import pytest

from rs_assets.testing import PipelineDriver

ROWS = [{"n": n} for n in range(6)]


def by_python(row):
    return None if row["n"] == 5 else "even" if row["n"] % 2 == 0 else "odd"


@pytest.mark.parametrize("label", [by_python, "CASE WHEN n = 5 THEN null WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END"])
def test_should_send_each_record_to_the_branch_of_its_label(source, driver, label):
    branches = source("n bigint").split(label)
    branches.select("even").to_print(name="evens")
    branches.select("odd").map("n * 10 AS n").to_print(name="odds")
    pipeline = branches.select("neither").to_print(name="nothing").build()
    with PipelineDriver(pipeline, spark=driver) as running:
        running.push(ROWS)
        running.step()
        assert [row["n"] for row in running.take("evens")] == [0, 2, 4]
        assert [row["n"] for row in running.take("odds")] == [10, 30]
        assert running.take("nothing") == []
        assert (running.report().rows_in, len(running.report().queries)) == (6, 1)
