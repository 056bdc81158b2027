"""What Spark loads for each session although no pipeline uses it is left out; what others bring is not."""

from types import SimpleNamespace

from pyspark import SparkContext

from rs_assets.spark import unneeded
from rs_assets.spark.unneeded import skip_lookup, without_learning

SERVICE = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"


def test_a_session_has_no_functions_of_vectors_and_its_thread_is_as_before(driver):
    def look(spark):
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return spark.catalog.functionExists("vector_to_array"), loader.getClass().getSimpleName()

    has_vectors, loader = driver.call(look)
    assert not has_vectors
    assert loader != "WithoutLearning"


def test_extensions_that_a_user_adds_are_found(spark, tmp_path):
    own = tmp_path / SERVICE
    own.parent.mkdir(parents=True)
    own.write_text("my.Extensions\n")
    jvm = spark._jvm
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(tmp_path)).toURI().toURL()
    added = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getSystemClassLoader())
    found = jvm.java.util.Collections.list(
        jvm.org.apache.spark.sql.rsassets.WithoutLearning(added).getResources(SERVICE)
    )
    assert [url.getPath() for url in found] == [str(own)]
    assert "spark-mllib" in str(added.getResources(SERVICE).nextElement())


def test_a_jvm_of_somebody_else_stays_as_it_is(monkeypatch):
    package = SimpleNamespace(rsassets=SimpleNamespace(SessionExtensions=object()))
    spark = SimpleNamespace(sql=package)
    monkeypatch.setattr(SparkContext, "_jvm", SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark))))
    with without_learning():
        pass


def test_no_python_is_started_to_look_for_data_sources(spark):
    sources = getattr(spark._jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    known = getattr(sources, "MODULE$").dataSourceBuilders()
    assert known.isDefined()
    assert known.get().size() == 0


def test_data_sources_of_installed_packages_are_looked_up(monkeypatch):
    monkeypatch.setattr(unneeded, "iter_modules", lambda: [SimpleNamespace(name="pyspark_mine")])
    # Nothing of the session is touched.
    skip_lookup(None)
