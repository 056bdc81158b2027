"""Columns that are made while Spark runs: the functions in Python that they call are part of what they do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import functions as F

from rs_assets.topology.user_code.spark_column import column_text


def calls(limit, place):
    """A Column that calls a function with a limit, at some place."""
    above = F.udf(lambda value: value is not None and value > limit, "boolean")
    more = F.udf(lambda value: (value or 0) + 1, "bigint")
    return {
        "alone": lambda: above("v"),
        "in a condition": lambda: (F.col("v") > 1) & above(F.col("v")),
        "in a case": lambda: F.when(above("v"), F.lit(1)).otherwise(F.lit(2)),
        "of another function": lambda: above(more(F.col("v"))),
        "in a list": lambda: F.transform(F.col("vs"), above),
    }[place]()


@pytest.mark.parametrize("place", ["alone", "in a condition", "in a case", "of another function", "in a list"])
def test_another_function_is_another_column(driver, place):
    texts = driver.call(lambda _: [column_text(calls(limit, place)) for limit in (1, 1, 2)])
    assert texts[0] == texts[1] != texts[2]


def test_a_column_without_functions_has_its_text_alone(driver):
    assert driver.call(lambda _: column_text(F.col("v") > 1)) == ">(v, 1)"


PROGRAM = """
from pyspark.sql import SparkSession
from rs_assets.topology.user_code.spark_column import column_text
from tests.topology.test_live_columns import calls
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("text:", column_text(calls(1, "in a case")))
"""


@pytest.mark.long
def test_a_column_is_the_same_in_each_process():
    found = [run([sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2")]
    assert len({line for text in found for line in text.splitlines() if line.startswith("text:")}) == 1


def run(command, env):
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300).stdout
