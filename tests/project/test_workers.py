"""The Python of Spark's workers: the installed PySpark, and not the archive of its sources."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from rs_assets.spark.workers import PYTHON, SCRIPT, WORKER, worker_environment

CHOSEN = {PYTHON: str(SCRIPT), WORKER: sys.executable}
INSTALLED = {PYTHON: sys.executable}


def test_script_leaves_out_the_archives_of_spark_and_keeps_other_folders(tmp_path):
    own = tmp_path / "my modules"
    own.mkdir()
    archives = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip", "/s/jars/spark-core_2.13-4.2.0.jar"]
    places = [*archives, str(own), "/other/pyspark.zip"]
    command = [str(SCRIPT), "-c", "import json, sys; print(json.dumps([sys.executable, sys.path]))"]
    environment = {"PYTHONPATH": ":".join(places), WORKER: sys.executable}

    executable, path = json.loads(subprocess.check_output(command, env=environment, text=True))

    assert executable == sys.executable
    assert [place for place in path if place in places] == [str(own), "/other/pyspark.zip"]


@pytest.mark.parametrize(
    ("environment", "one_process", "expected"),
    [
        ({}, True, CHOSEN),
        ({}, False, INSTALLED),
        ({PYTHON: str(SCRIPT), WORKER: "/python/of/the/parent"}, True, CHOSEN),
        ({PYTHON: str(SCRIPT), WORKER: sys.executable}, False, INSTALLED),
        ({PYTHON: "/opt/python"}, True, {}),
        ({"SPARK_HOME": "/opt/spark"}, True, INSTALLED),
        ({"PYSPARK_GATEWAY_PORT": "4711"}, True, INSTALLED),
    ],
)
def test_python_of_workers_is_this_one_unless_the_user_chose_another(environment, one_process, expected):
    assert worker_environment(environment, one_process=one_process) == expected


def test_worker_imports_pyspark_as_it_is_installed(spark):
    def place(_):
        import pyspark

        yield pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(place).collect() == [str(Path(pyspark.__file__))]
