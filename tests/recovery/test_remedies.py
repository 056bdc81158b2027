"""Remedies of refused starts, returns and resets, followed to the letter: afterwards the rows are there once."""

import re
import shutil
import sqlite3
from ast import literal_eval
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.common.home import Home
from rs_assets.errors import RsError, StartRefused
from rs_assets.runtime.upkeep.savepoints import rewind


def lines(path, first, last):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f'{{"id":{n}}}\n' for n in range(first, last + 1)))


def asked(path, sql="SELECT id FROM hits ORDER BY id"):
    with closing(sqlite3.connect(path)) as database, database:
        return [row[0] for row in database.execute(sql).fetchall()]


def refused(call, *arguments, **named):
    """What `call` raises, as people read it."""
    with pytest.raises(RsError) as error:
        call(*arguments, **named)
    return str(error.value)


@pytest.fixture
def copied(tmp_path):
    """A pipeline from a folder of files into a table of SQLite, which has its first file."""
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    stream = StreamBuilder.data_stream("shop", "copied").from_file(tmp_path / "in", schema="id long")
    return stream.to_sqlite(tmp_path / "out.db", "hits").build()


def emptied(path, remedy):
    (delete,) = re.findall(r"\((DELETE .*?)\)", remedy)
    asked(path, delete)


def test_a_new_generation_over_a_sqlite_table_of_a_lost_home_doubles_no_row(copied, options, tmp_path):
    path = tmp_path / "out.db"
    copied.run(options)
    blank = replace(options, home=Home.at(str(tmp_path / "blank")))
    remedy = refused(copied.run, blank)
    assert "remove the rows of hits_table, which stay otherwise, and start over: --new-generation" in remedy
    afresh = replace(blank, new_generation=True)
    remedy = refused(copied.run, afresh)
    assert asked(path) == [1, 2, 3]
    emptied(path, remedy)
    assert copied.run(afresh).rows_out == 3
    assert asked(path) == [1, 2, 3]
    assert copied.run(blank).rows_out == 0
    with pytest.raises(StartRefused, match="rows of an earlier generation"):
        copied.run(replace(blank, new_generation=True))
    lines(tmp_path / "in" / "2.jsonl", 4, 4)
    assert copied.run(blank).rows_out == 1


def test_a_sqlite_database_that_is_an_older_copy_is_gone_on_with_from_its_batch(copied, options, tmp_path):
    path, copy = tmp_path / "out.db", tmp_path / "copy.db"
    copied.run(options)
    shutil.copy(path, copy)
    lines(tmp_path / "in" / "2.jsonl", 4, 5)
    copied.run(options)
    shutil.copy(copy, path)
    remedy = refused(copied.run, options)
    assert "or empty it and start over with --new-generation" in remedy
    (batch,) = re.findall(r"rewind the pipeline to batch (\d+) ", remedy)
    rewind(copied.topology, int(batch), options)
    assert copied.run(options).rows_out == 2
    assert asked(path) == [1, 2, 3, 4, 5]
    # Behind that nothing can be taken back; the remedy names where it can go, and how to begin again.
    remedy = refused(rewind, copied.topology, 0, options)
    assert "go to batch 1, which removes none" in remedy
    rewind(copied.topology, 1, options)
    emptied(path, remedy)
    assert copied.run(replace(options, new_generation=True)).rows_out == 5
    assert asked(path) == [1, 2, 3, 4, 5]


def reads(tmp_path, *, source="file", target="a", step="per", renamed=None, windowed=False):
    stream = StreamBuilder.data_stream("shop", "turned").from_file(tmp_path / "in", schema="id long", name=source)
    if windowed:
        stream = stream.distinct("id", within=timedelta(days=1), name=step)
    return stream.to_delta(target).build(renamed=renamed or {})


def there(options, table):
    path = options.home.table("shop", table)
    return sorted(DeltaTable(path).to_pyarrow_table().column("id").to_pylist()) if Path(path).exists() else []


def test_another_target_of_a_query_without_state_is_refused_with_remedies_that_work(options, tmp_path):
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    reads(tmp_path).run(options)
    remedy = refused(reads(tmp_path, target="b").run, options)
    assert "which has what was read for a_table" in remedy
    assert "give the step 'file' another name" in remedy
    reads(tmp_path, source="file2", target="b").run(options)
    assert (there(options, "a"), there(options, "b")) == ([1, 2, 3], [1, 2, 3])
    remedy = refused(reads(tmp_path, source="file2", target="c").run, options)
    assert "or begin a new generation (--new-generation)" in remedy
    reads(tmp_path, source="file2", target="c").run(replace(options, new_generation=True))
    assert (there(options, "b"), there(options, "c")) == ([1, 2, 3], [1, 2, 3])


def test_a_rename_that_was_not_declared_is_named_in_the_remedy_and_back_again(options, tmp_path):
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    reads(tmp_path, windowed=True).run(options)
    declared = None
    for step, number in (("per2", 4), ("per", 5), ("per3", 6)):
        lines(tmp_path / "in" / f"{number}.jsonl", number - 1, number)
        remedy = refused(reads(tmp_path, windowed=True, step=step).run, options)
        (declared,) = re.findall(r"declare what was renamed: .build\(renamed=(\{.*?\})\)", remedy)
        # With state kept only the new row comes out.
        assert reads(tmp_path, windowed=True, step=step, renamed=literal_eval(declared)).run(options).rows_out == 1
    assert there(options, "a") == [1, 2, 3, 4, 5, 6]


def test_a_run_of_changed_code_that_reads_nothing_says_so(options, tmp_path):
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    stream = StreamBuilder.data_stream("shop", "cell").from_file(tmp_path / "in", schema="id long")
    before, after = (stream.filter(f"id > {least}").to_delta("cell").build() for least in (0, 1))
    said = "the pipeline has changed and there was nothing new to read"
    assert not any(said in warning for warning in before.run(options).warnings)
    assert before.run(options).warnings == ()
    (warning,) = after.run(options).warnings
    assert said in warning
    assert there(options, "cell") == [1, 2, 3]
    # To the letter.
    assert after.run(replace(options, new_generation=True)).warnings == ()
    assert there(options, "cell") == [2, 3]


def test_a_sealed_folder_is_read_again_and_then_without_an_end(options, tmp_path):
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    pipeline = reads(tmp_path)
    pipeline.run(options, finish=True)
    lines(tmp_path / "in" / "2.jsonl", 4, 4)
    remedy = refused(pipeline.run, options, finish=True)
    assert "begin a new generation (--new-generation), and run without finish=True while files come" in remedy
    pipeline.run(replace(options, new_generation=True))
    lines(tmp_path / "in" / "3.jsonl", 5, 5)
    pipeline.run(options)
    assert there(options, "a") == [1, 2, 3, 4, 5]


def numbered(key, state, rows):
    return {"n": (state["n"] if state else 0) + len(rows)}, [{"id": key["id"]} for _ in rows]


def test_a_savepoint_without_a_query_whose_rows_stay_is_followed_by_a_refusal_that_doubles_no_row(options, tmp_path):
    lines(tmp_path / "in" / "1.jsonl", 1, 3)
    path = tmp_path / "out.db"

    def pipeline(*, counts):
        read = StreamBuilder.data_stream("shop", "later").from_file(tmp_path / "in", schema="id long", name="in")
        made = read.to_delta("copy", name="copy")
        if counts:
            counted = read.process_values(numbered, keys="id", state="n bigint", schema="id bigint", name="numbers")
            made = counted.to_sqlite(path, "hits", name="hits")
        return made.build()

    pipeline(counts=False).run(options)
    before = pipeline(counts=False).savepoint(options)
    pipeline(counts=True).run(options)
    pipeline(counts=True).restore(options, savepoint_id=before.id)
    remedy = refused(pipeline(counts=True).run, options)
    assert asked(path) == [1, 2, 3]
    emptied(path, remedy)
    pipeline(counts=True).run(options)
    assert asked(path) == [1, 2, 3]
