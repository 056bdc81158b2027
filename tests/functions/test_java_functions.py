"""Functions of Java and Scala in streaming SQL: classes in jars, which the compiler of pyspark makes here."""

from __future__ import annotations

import os
import subprocess
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import ConfigurationError, RsError, SqlError, TopologyError
from rs_assets.spark.jars import jars_of_pyspark
from rs_assets.spark.java import java_home
from rs_assets.udf.class_file import Method, NoClassError, java_class
from rs_assets.udf.jars import class_path
from rs_assets.udf.java import java

SOURCE = """
package shop

import java.lang.{Boolean => JBoolean, Double => JDouble, Long => JLong}
import java.math.BigDecimal
import java.time.{Instant, LocalDate, LocalDateTime}
import org.apache.spark.sql.api.java.{UDF0, UDF1, UDF2}

class Masked {
  def eval(text: String, kept: Int): String = if (text == null) null else text.take(kept) + "*" * (text.length - kept)
}
class Doubled { def evaluate(n: JLong): JLong = if (n == null) JLong.valueOf(-1L) else JLong.valueOf(2 * n.longValue) }
class Joined extends UDF2[String, BigDecimal, String] {
  override def call(text: String, number: BigDecimal): String = text + ":" + number
}
class Nothing0 extends UDF0[String] { override def call(): String = "nothing" }
class Failing extends UDF1[String, String] {
  override def call(text: String): String = throw new IllegalStateException("no " + text)
}
class Kinds {
  def eval(flag: JBoolean, at: Instant, day: LocalDate, raw: Array[Byte], x: Double, y: JDouble): String =
    Seq(flag, at, day, raw.length, x, y).mkString(" ")
}
class Later { def eval(at: Instant): Instant = at.plusSeconds(60) }
class Next {
  def eval(at: LocalDateTime): LocalDateTime = if (at == null) LocalDateTime.of(2000, 1, 1, 0, 0) else at.plusDays(1)
}
class Eve { def eval(day: LocalDate): LocalDate = day.minusDays(1) }
class Counting {
  private var calls = 0L
  def eval(text: String): Long = { calls += 1; if (text == null) -calls.signum else text.length }
}
class Base { def more(text: String): String = text + "!" }
class Needing extends Base { def eval(text: String): String = more(text) }

class Opened { def open(context: AnyRef): Unit = (); def eval(text: String): String = text }
class Two { def eval(text: String): String = text; def evaluate(text: String): String = text }
class Without { def apply(text: String): String = text }
class Unmade(n: Int) { def eval(text: String): String = text }
class Odd { def eval(items: java.util.List[String]): String = items.get(0) }

class Overloaded {
  private def eval(text: Object): String = "private " + text
  def eval(text: String): String = "public " + text
  private def eval(text: CharSequence): String = "private " + text
}
class Reversed {
  def eval(raw: Array[Byte]): Array[Byte] = {
    for (at <- 0 until raw.length / 2) {
      val (one, other) = (raw(at), raw(raw.length - 1 - at))
      raw(at) = other
      raw(raw.length - 1 - at) = one
    }
    raw
  }
}
class Loaded {
  def eval(text: String): String =
    if (Thread.currentThread.getContextClassLoader eq getClass.getClassLoader) text + " by its own" else text
}
class Prepared { def open(context: AnyRef): Unit = () }
class Inherits extends Prepared { def eval(text: String): String = text }
class Unlucky { def eval(text: String): String = text; throw new IllegalStateException("no licence") }
class Chance { def isDeterministic: Boolean = false; def eval(text: String): String = text }
class Huge { def eval(n: Long): BigDecimal = new BigDecimal(java.math.BigInteger.TEN.pow(30)) }
class Fixed { def eval(text: String): String = "stamp-one" }
"""
# A class of a library of Spark, in another version.
KNOWN = """
package org.apache.commons.lang3.time
class StopWatch { def eval(text: String): String = text + " watched" }
"""
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = [{"page": page, "ms": ms, "ts": BEGIN} for page, ms in [("abcd", 7), (None, 3), ("xyz", None), ("a", -1)]]
TABLES = """
CREATE TABLE clicks (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jars")
    sources, made = [folder / "shop.scala", folder / "known.scala"], folder / "shop.jar"
    for source, text in zip(sources, (SOURCE, KNOWN), strict=True):
        source.write_text(text)
    path = os.pathsep.join(map(str, jars_of_pyspark("*.jar")))
    command = [str(java_home() / "bin" / "java"), "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    done = subprocess.run([*command, "-d", str(made), *map(str, sources)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def parted(jar, folder):
    """The same classes in two jars: all others, and Base."""
    one, other = folder / "most.jar", folder / "base.jar"
    with zipfile.ZipFile(jar) as given, zipfile.ZipFile(one, "w") as most, zipfile.ZipFile(other, "w") as base:
        for name in given.namelist():
            (base if name == "shop/Base.class" else most).writestr(name, given.read(name))
    return one, other


def with_class_path(jar, place, entries, *, only=(), without=()):
    """The jar at another place, with some of its classes and a manifest that names `entries`."""
    line = f"class-path: {entries}".encode()
    # The lines of a manifest have at most 72 bytes.
    manifest = b"Manifest-Version: 1.0\r\n" + b"\r\n ".join(line[at : at + 70] for at in range(0, len(line), 70))
    with zipfile.ZipFile(jar) as given, zipfile.ZipFile(place, "w") as made:
        made.writestr("META-INF/MANIFEST.MF", manifest + b"\r\n\r\nName: shop\r\nClass-Path: of_a_section.jar\r\n")
        for name in given.namelist():
            cls = name.removesuffix(".class").rpartition("/")[2]
            if name.endswith(".class") and cls not in without and (not only or cls in only):
                made.writestr(name, given.read(name))
    return place


def created(jars, *classes):
    using = ", ".join(f"JAR '{each}'" for each in jars)
    return "".join(f"CREATE FUNCTION f_{each} AS 'shop.{each}' USING {using};" for each in classes)


def pipeline(jars, classes, columns, query):
    sink = f"CREATE TABLE found ({columns}) WITH ('connector' = 'print');"
    return pipeline_from_sql(f"{TABLES}{created(jars, *classes)}{sink} INSERT INTO found {query}", job="own")


def test_functions_in_the_shapes_of_flink_hive_and_spark_give_what_python_does(driver, jar):
    made = pipeline(
        [jar],
        ["Masked", "Doubled", "Joined", "Nothing0", "Failing", "Kinds", "Later", "Counting", "Next", "Eve"],
        "a STRING, b BIGINT, c STRING, d STRING, e STRING, f STRING, g TIMESTAMP(3), h BIGINT, i TIMESTAMP(3), j DATE",
        """SELECT f_masked(page, 1), F_DOUBLED(ms), f_Joined(page, CAST(ms AS DECIMAL(10, 2))), f_nothing0(),
            CASE WHEN ms > 1000 THEN f_failing(page) END,
            f_kinds(ms > 3, ts, CAST(ts AS DATE), ENCODE('abc', 'UTF-8'), CAST(ms AS DOUBLE), CAST(NULL AS DOUBLE)),
            f_later(ts), f_counting(f_masked(page, 1)), f_next(CASE WHEN ms > 3 THEN ts END), f_eve(CAST(ts AS DATE))
            FROM clicks WHERE f_doubled(ms) <> 999""",
    )
    assert made.try_(ROWS, spark=driver)["found"] == [
        {
            "a": None if page is None else page[:1] + "*" * (len(page) - 1),
            "b": -1 if ms is None else 2 * ms,
            "c": f"{'null' if page is None else page}:{'null' if ms is None else f'{Decimal(ms):.18f}'}",
            "d": "nothing",
            "e": None,
            # A null for a primitive parameter is null, without a call.
            "f": None if ms is None else f"{str(ms > 3).lower()} 2026-01-05T00:00:00Z 2026-01-05 3 {float(ms)} null",
            "g": BEGIN.replace(minute=1),
            "h": -1 if page is None else len(page),
            "i": BEGIN.replace(day=6) if (ms or 0) > 3 else datetime(2000, 1, 1, tzinfo=UTC),
            "j": date(2026, 1, 4),
        }
        for page, ms in ((row["page"], row["ms"]) for row in ROWS)
    ]


def test_function_of_java_that_raises_ends_the_run_with_its_error(driver, jar):
    made = pipeline([jar], ["Failing"], "a STRING", "SELECT f_failing(page) FROM clicks")
    with pytest.raises(RsError, match="IllegalStateException: no abcd") as error:
        made.try_(ROWS[:1], spark=driver)
    assert "bad_records='quarantine'" in error.value.remedy


def test_result_of_more_digits_than_its_type_has_ends_the_run(driver, jar):
    made = pipeline([jar], ["Huge"], "a DECIMAL(38, 18)", "SELECT f_huge(ms) FROM clicks")
    with pytest.raises(RsError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        made.try_(ROWS[:1], spark=driver)


def test_class_that_needs_another_jar_is_refused_with_a_remedy_that_works(driver, jar, tmp_path):
    one, other = parted(jar, tmp_path)
    query = "a STRING", "SELECT f_needing(page) FROM clicks WHERE page = 'a'"
    with pytest.raises(ConfigurationError, match="shop/Base") as error:
        pipeline([one], ["Needing"], *query).try_(ROWS, spark=driver)
    assert "USING JAR 'a.jar', JAR 'b.jar'" in error.value.remedy
    # Only the pipelines that call it are concerned.
    assert pipeline([jar], ["Eve"], "a DATE", "SELECT f_eve(DATE '2026-01-05') FROM clicks").try_(
        ROWS[:1], spark=driver
    )
    assert pipeline([one, other], ["Needing"], *query).try_(ROWS, spark=driver)["found"] == [{"a": "a!"}]
    naming = with_class_path(one, tmp_path / "naming.jar", "base.jar")
    assert pipeline([naming], ["Needing"], *query).try_(ROWS, spark=driver)["found"] == [{"a": "a!"}]


def test_method_that_is_called_is_the_public_one_on_a_copy_of_bytes_in_the_loader_of_the_jar(driver, jar, tmp_path):
    odd = tmp_path / "a b:c#d%20" / "shop.jar"
    odd.parent.mkdir()
    odd.write_bytes(jar.read_bytes())
    sink = "CREATE TABLE found (a STRING, b STRING, c STRING, d STRING) WITH ('connector' = 'print');"
    made = pipeline_from_sql(
        f"""{TABLES}{created([odd], "Overloaded", "Reversed", "Loaded")}{sink}
        CREATE FUNCTION f_watch AS 'org.apache.commons.lang3.time.StopWatch' USING JAR '{odd}';
        INSERT INTO found SELECT f_overloaded(page), DECODE(f_reversed(ENCODE('abc', 'UTF-8')), 'UTF-8'),
            f_loaded(page), f_watch(page) FROM clicks WHERE page IS NOT NULL"""
    )
    assert made.try_(ROWS, spark=driver)["found"] == [
        {"a": f"public {page}", "b": "cba", "c": f"{page} by its own", "d": f"{page} watched"}
        for page in ("abcd", "xyz", "a")
    ]


def test_functions_of_java_are_keys_and_arguments_of_windows(driver, jar):
    made = pipeline(
        [jar], ["Masked", "Doubled"], "a STRING, n BIGINT, s BIGINT, m BIGINT",
        """SELECT f_masked(page, 1), COUNT(*), SUM(f_doubled(ms)), AVG(f_doubled(ms)) FROM clicks
            GROUP BY f_masked(page, 1), TUMBLE(ts, INTERVAL '1' MINUTE)""",
    )  # fmt: skip
    twice = [{**row, "page": page} for row in ROWS for page in (row["page"], "xyz")]
    found = {row["a"]: (row["n"], row["s"], row["m"]) for row in made.try_(twice, spark=driver)["found"]}
    # Of null the function makes -1.
    assert found == {"a***": (1, 14, 14), None: (1, 6, 6), "x**": (5, 16, 3), "a": (1, -2, -2)}


def restamped(jar, place):
    """The jar with another version of Fixed."""
    with zipfile.ZipFile(jar) as given, zipfile.ZipFile(place, "w") as made:
        for name in given.namelist():
            made.writestr(name, given.read(name).replace(b"stamp-one", b"stamp-two"))


def test_jar_that_is_replaced_after_the_pipeline_was_built_is_refused_until_it_is_built_again(driver, jar, tmp_path):
    own, query = tmp_path / "own.jar", (["Fixed"], "a STRING", "SELECT f_fixed(page) FROM clicks")
    own.write_bytes(jar.read_bytes())
    made = pipeline([own], *query)
    restamped(jar, own)
    with pytest.raises(ConfigurationError, match="another content than when the pipeline was built") as error:
        made.try_(ROWS[:1], spark=driver)
    assert "build the pipeline again" in error.value.remedy
    assert pipeline([own], *query).try_(ROWS[:1], spark=driver)["found"] == [{"a": "stamp-two"}]
    own.unlink()
    with pytest.raises(TopologyError, match="cannot be read"):
        pipeline([own], *query)
    # What was refused is not refused for ever.
    own.write_bytes(jar.read_bytes())
    assert pipeline([own], *query).try_(ROWS[:1], spark=driver)["found"] == [{"a": "stamp-one"}]


@pytest.mark.parametrize(
    ("cls", "said", "remedy"),
    [
        ("Unlucky", "IllegalStateException: no licence", "correct its constructor"),
        ("Chance", "isDeterministic", "compute the value from columns that identify the row"),
    ],
)
def test_object_that_cannot_be_made_is_refused_with_its_reason(driver, jar, cls, said, remedy):
    query = "a STRING", f"SELECT f_{cls}(page) FROM clicks"
    with pytest.raises(ConfigurationError, match=said) as error:
        pipeline([jar], [cls], *query).try_(ROWS[:1], spark=driver)
    assert remedy in error.value.remedy
    assert pipeline([jar], ["Needing"], "a STRING", "SELECT f_needing(page) FROM clicks").try_(ROWS[:1], spark=driver)


def test_other_content_of_a_jar_is_another_code(jar, tmp_path):
    query = ["Masked"], "a STRING", "SELECT f_masked(page, 1) FROM clicks"
    copy, (other, _) = tmp_path / "copy.jar", parted(jar, tmp_path)
    copy.write_bytes(jar.read_bytes())
    codes = [pipeline([each], *query).topology.code for each in (jar, copy, other)]
    assert (codes[0] == codes[1], codes[0] == codes[2]) == (True, False)


def test_jars_that_a_manifest_names_belong_to_the_function(jar, tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    moved = ("Masked", "Prepared")
    entries = "gone.jar http://127.0.0.1/far.jar a%20b/masked.jar " + "much/too/long/for/a/line.jar " * 3
    one = with_class_path(jar, tmp_path / "one.jar", entries, without=moved)
    with_class_path(jar, folder / "masked.jar", "../prepared.jar ../one.jar", only=("Masked",))
    last = with_class_path(jar, tmp_path / "prepared.jar", "", only=("Prepared",))
    assert class_path([one, last]) == [one, folder / "masked.jar", last]
    assert java("shop.Masked", "own_in_java", [one]).returns == "string"
    with pytest.raises(TopologyError, match="has a method 'open'"):
        java("shop.Inherits", "own_in_java", [one])
    query = ["Masked"], "a STRING", "SELECT f_masked(page, 1) FROM clicks"
    before = pipeline([one], *query).topology.code
    with_class_path(jar, last, "", only=("Prepared", "Eve"))
    assert pipeline([one], *query).topology.code != before


@pytest.mark.parametrize("entry", [".", "classes/", "file:{folder}/"])
def test_manifest_that_names_a_folder_is_refused_with_a_remedy_that_works(jar, tmp_path, entry):
    (tmp_path / "classes").mkdir()
    one = with_class_path(jar, tmp_path / "one.jar", entry.format(folder=tmp_path / "classes"), without=("Masked",))
    with pytest.raises(TopologyError, match="names the folder") as error:
        java("shop.Masked", "own_in_java", [one])
    assert "USING JAR 'a.jar', JAR 'b.jar'" in error.value.remedy
    with_class_path(jar, one, "", without=("Masked",))
    other = with_class_path(jar, tmp_path / "other.jar", "", only=("Masked",))
    assert java("shop.Masked", "own_in_java", [one, other]).returns


# A class, what is said of it, words of the remedy, and a class that is as they say.
REFUSED = [
    ("shop.Maskde", "there is no class 'shop.Maskde'", "did you mean 'shop.Masked'?", "shop.Masked"),
    ("zzz.Q", "there is no class 'zzz.Q'", "name a class of the jars with its package", "shop.Masked"),
    ("shop.Opened", "has a method 'open'", "prepare it in its constructor", "shop.Counting"),
    ("shop.Inherits", "has a method 'open'", "prepare it in its constructor", "shop.Needing"),
    ("shop.Two", "has 2 methods that could be called", "give it one public method", "shop.Masked"),
    ("shop.Without", "has 0 methods that could be called", "named eval, evaluate or call", "shop.Doubled"),
    ("shop.Unmade", "no object of 'shop.Unmade' can be made", "public constructor without parameters", "shop.Masked"),
    ("shop.Odd", "has the type 'java.util.List'", "use BigDecimal, Boolean, Byte, Double", "shop.Kinds"),
]


@pytest.mark.parametrize(("cls", "said", "remedy", "right"), REFUSED)
def test_class_that_cannot_be_a_function_is_refused_with_a_remedy_that_works(jar, cls, said, remedy, right):
    with pytest.raises(TopologyError) as error:
        java(cls, "own_in_java", [jar])
    assert (said in error.value.what, remedy in error.value.remedy) == (True, True), error.value
    assert java(right, "own_in_java", [jar]).returns


def test_statement_with_a_wrong_jar_is_refused_at_its_place(jar, tmp_path):
    damaged = tmp_path / "damaged.jar"
    damaged.write_bytes(b"no jar")
    wrong = {
        "AS 'shop.Masked' USING JAR '/nowhere/shop.jar'": "the jar '/nowhere/shop.jar' cannot be read",
        f"AS 'shop.Masked' USING JAR '{damaged}'": f"the jar '{damaged}' cannot be read",
        f"AS 'shop:f' LANGUAGE PYTHON USING JAR '{jar}'": "a function of Python has no jar",
        f"AS 'shop.Maskde' LANGUAGE JAVA USING JAR '{jar}'": "there is no class 'shop.Maskde'",
        f"AS 'shop.Masked' USING JAR '{jar}', '{jar}'": "expected JAR",
    }
    for text, said in wrong.items():
        with pytest.raises(SqlError) as error:
            pipeline_from_sql(f"{TABLES}CREATE FUNCTION f {text}; INSERT INTO clicks SELECT * FROM clicks")
        assert said in error.value.what, (text, error.value)
        assert error.value.facts["line"] == 4
    odd = tmp_path / "a b%20" / "shop.jar"
    odd.parent.mkdir()
    odd.write_bytes(jar.read_bytes())
    for place in (f"JAR '{jar}'", f"JAR 'file://{jar}', JAR '{jar}'", f"JAR '{odd}'", f"JAR '{odd.as_uri()}'"):
        text = f"{TABLES}CREATE FUNCTION f AS 'shop.Masked' LANGUAGE SCALA USING {place};"
        found = "CREATE TABLE found (a STRING) WITH ('connector' = 'print');"
        assert pipeline_from_sql(f"{text}{found}INSERT INTO found SELECT f(page, 1) FROM clicks")
    twice = f"{TABLES}{created([jar], 'Masked', 'Doubled')}CREATE FUNCTION F_MASKED AS 'shop.Joined' USING JAR '{jar}';"
    with pytest.raises(SqlError, match="'F_MASKED' was created as 'f_Masked', which differs by case only"):
        pipeline_from_sql(f"{twice}INSERT INTO clicks SELECT * FROM clicks")
    digits = "f_joined(page, CAST(ms AS DECIMAL(38, 20)))"
    with pytest.raises(SqlError, match=r"the argument 2 of f_Joined is a DECIMAL\(38,20\)"):
        pipeline([jar], ["Joined"], "a STRING", f"SELECT {digits} FROM clicks")
    with pytest.raises(SqlError, match="the argument 2 of f_Masked is a STRING, but must be an? INT"):
        pipeline([jar], ["Masked"], "a STRING", "SELECT f_masked(page, page) FROM clicks")


def test_class_file_without_java_has_the_methods_of_the_class():
    (api,) = jars_of_pyspark("spark-sql-api_*.jar")
    with zipfile.ZipFile(api) as archive:
        content = archive.read("org/apache/spark/sql/api/java/UDF2.class")
    (call,) = java_class(content).methods
    assert java_class(content).above == "java.lang.Object"
    assert (call.name, call.types) == ("call", ("Ljava/lang/Object;",) * 3)
    assert Method("f", "()V", 1).types == ("V",)
    for wrong in (b"", b"PK\3\4", content[:40], content[:-200]):
        with pytest.raises(NoClassError):
            java_class(wrong)
