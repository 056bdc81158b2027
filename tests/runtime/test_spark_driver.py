"""Drivers of one process share its Spark: none ends that of another one."""

import subprocess
import sys

import pytest

from rs_assets.spark.driver import SparkDriver, SparkSettings

PROGRAM = """
from rs_assets.spark.driver import SparkDriver

driver = SparkDriver.shared()
print(driver.call(lambda spark: spark.range(3).count()))
driver.call(lambda spark: spark.stop())
print(driver.call(lambda spark: spark.range(3).count()))
"""


def count(spark):
    return spark.range(3).count()


def test_a_driver_that_stops_leaves_the_spark_of_another_one(driver):
    assert driver.call(count) == 3
    of_a_dagster_run = SparkDriver(SparkSettings())
    assert of_a_dagster_run.call(count) == 3
    of_a_dagster_run.stop()
    assert not of_a_dagster_run.started
    assert driver.call(count) == 3


@pytest.mark.long
def test_a_session_that_others_have_stopped_is_made_again():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3", "3"], done.stderr
