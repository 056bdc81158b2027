"""Names of files that are not in ASCII, in a process whose locale knows no others, as a container may have it."""

import os
import subprocess
import sys

import pytest
from deltalake import DeltaTable

PIPELINE = """
from rs_assets import Home, RunOptions, StreamBuilder
read = StreamBuilder.data_stream("shop", "accents").from_file("entrées", schema="n bigint")
read.to_delta("accents").build().run(RunOptions(home=Home.at("maison é")))
"""


@pytest.mark.long
@pytest.mark.parametrize("locale", ["C", "xx_YY.UTF-8"])
def test_files_and_folders_with_accents_are_read_and_written_in_a_locale_without_them(tmp_path, locale):
    (tmp_path / "entrées").mkdir()
    for number, name in enumerate(("plain", "é", "日本")):
        (tmp_path / "entrées" / f"{name}.jsonl").write_text(f'{{"n": {number}}}\n')
    environment = {**os.environ, "LC_ALL": locale, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", PIPELINE], cwd=tmp_path, env=environment, check=True)
    table = DeltaTable(str(tmp_path / "maison é" / "tables" / "shop" / "accents")).to_pyarrow_table()
    assert sorted(table["n"].to_pylist()) == [0, 1, 2]
