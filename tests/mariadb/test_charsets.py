"""Character sets of columns: the log has their bytes, of which the same text must be made as in a snapshot."""

from __future__ import annotations

import pytest

from rs_assets.connectors.mariadb.charsets import CODECS, decoded
from rs_assets.errors import SourceReadError
from tests.mariadb.plain import Source

READ = (
    "SELECT b, CONVERT(CONVERT(b USING {0}) USING utf8mb4) FROM t WHERE CONVERT(CONVERT(b USING {0}) USING binary) = b"
)


def test_texts_of_a_character_set_are_those_of_the_server(mariadb, shop):
    """All that have one or two bytes, of which the server knows the character."""
    mariadb.execute(
        shop, "CREATE TABLE t (b varbinary(2))", "INSERT INTO t SELECT unhex(lpad(hex(seq), 2, '0')) FROM seq_1_to_255",
        "INSERT INTO t SELECT unhex(hex(seq)) FROM seq_32768_to_65535",
    )  # fmt: skip
    for charset in CODECS:
        if not charset.startswith(("utf", "ucs")):
            found = [row for row in mariadb.execute(shop, READ.format(charset)) if row[1] and "?" not in row[1]]
            assert len(found) > 120, charset
            assert [(raw, text) for raw, text in found if decoded(raw, charset) != text] == [], charset


@pytest.mark.parametrize(
    ("charset", "text"), [("euckr", "갂가"), ("cp866", "ⁿ²№"[:2]), ("koi8r", "Ж"), ("sjis", "\\ア")]
)
def test_a_change_has_the_text_of_a_snapshot(mariadb, shop, tmp_path, charset, text):
    mariadb.execute(shop, f"CREATE TABLE t (id int PRIMARY KEY, v varchar(9) CHARACTER SET {charset})")
    source = Source(shop, tmp_path)
    source.read()
    with mariadb.connected(shop) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1, %s)", (text,))
    assert [row["v"] for row in source.read()] == [row["v"] for row in source.anew()] == [text]


def test_a_character_set_that_is_decoded_otherwise_is_refused(mariadb, shop, tmp_path):
    mariadb.execute(
        shop, "CREATE TABLE t (id int PRIMARY KEY, v varchar(9) CHARACTER SET big5, e enum('a') CHARACTER SET big5)"
    )
    with pytest.raises(SourceReadError, match="the column 'v' of the table .* has the character set big5") as refused:
        Source(shop, tmp_path).read()
    mariadb.execute(shop, refused.value.remedy.partition(";")[0], "INSERT INTO t VALUES (1, 'ü', 'a')")
    assert [(row["v"], row["e"]) for row in Source(shop, tmp_path).read()] == [("ü", "a")]
