"""The Spark settings that the project relies on, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from rs_assets.errors import ConfigurationError
from rs_assets.spark import lean
from rs_assets.spark.jars import jars_of_pyspark

LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# A local file system that forks no process for each file: a small batch would fork 5 to 7, a third of its time.
FORKLESS_JAR, FORKLESS = "hadoop-bare-naked-local-fs", "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
# Settings that put the jars on the class path of the only Java. Spark's own way to add jars gives them a class
# loader of their own, whose classes Java cannot archive (archive.py).
CLASS_PATH = "spark.driver.extraClassPath"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
SECRETS = "(?i)secret|password|passwd|pwd|token|credential|jaas|api.?key|access.?key|keystore.?key|private.?key"

SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
# Spark then filters late rows by the watermark of the previous batch, so that rows released by one stateful operator
# are not late for the next: only for queries with several of them.
CHAINS = "spark.sql.streaming.statefulOperator.allowMultiple"
# The rules that Spark's optimizer leaves out, and the one that replaces a side of a union that has no rows. With the
# side it forgets that a key may be null, and state that begins so is refused as soon as the side has rows.
LEFT_OUT = "spark.sql.optimizer.excludedRules"
DROPS_SIDES = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
# Whether Spark adds a batch without records once the watermark has moved.
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"

# Spark's own defaults for what texts, values, files and watermarks mean. A spark-defaults.conf of the machine, or a
# session of the user, may have others: sums would overflow without an error, and the rows of cut files be missing.
MEANING: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}
# May be set on an existing session of the user; the rest only when a session is made.
SQL_SETTINGS: Mapping[str, str] = {
    **MEANING,
    # Timestamps mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # The default forks a process for each checkpoint file: half of a small batch's time.
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Sources can be added, dropped and reordered with state kept; only if on from the first batch.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    CHAINS: "false",
    # Spark would compute what is before a shuffle before a batch has the versions of its dimensions and rules.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # INT96 is not a Delta type; nanoseconds would raise the table's protocol version.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Otherwise a malformed CSV line goes unnoticed when its bad field is not read.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark passes Arrow functions the columns of files as they were read, and hangs if those are texts.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Dates and times pass through processors unchanged: Java's older classes lack 10 October 1582.
    "spark.sql.datetime.java8API.enabled": "true",
    # JSON_VALUE of an object with a key twice takes the last one, as all other readers of JSON; by default it is null.
    "spark.sql.variant.allowDuplicateKeys": "true",
}
FIXED_SETTINGS: Mapping[str, str] = {
    # A path without a scheme is one of this machine, also where the settings of Hadoop name another file system.
    "spark.hadoop.fs.defaultFS": "file:///",
    "spark.ui.showConsoleProgress": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.redaction.regex": SECRETS,
    "spark.ui.killEnabled": "false",
    # Otherwise each Column asks the JVM three times where in our compiler it was made: 1 ms a column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# In one process a stage that is retried fails for the same reason. Tasks that never run twice may send records in
# the driver's transaction (rs_assets/connectors/kafka).
ONE_PROCESS_SETTINGS: Mapping[str, str] = {"spark.stage.maxConsecutiveAttempts": "1"}
# For a short-lived Java: its second compiler, which takes half of the processor in the first minute, compiles only
# methods that are called ten times as often as its default threshold. Loops over records reach that at once; the
# planning of small batches only after minutes.
BRIEF_JAVA = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# For a Java that has little to do, which ends before its second compiler has paid: the first one alone, which need not
# observe the methods for the second, and the single-threaded collector. A quarter to a third of the processor time.
# With the first one alone Java has room for 48 MB of compiled code, which a hundred small batches fill. Then it
# interprets.
SMALL_JAVA, SMALL_COLLECTOR = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC"
# Where options for any Java may be set; Java refuses to start with two collectors.
JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
# No other machine needs to reach Spark here; the workers of a cluster on other machines do.
LOOPBACK = "127.0.0.1"
NEARBY = ("127.0.0.1", "::1", "localhost")
# Values of RS_PROFILE, and whether they are lean.
PROFILES: Mapping[str, bool] = {"": False, "normal": False, "lean": True}
HEAP = "1g"


def default_lean() -> bool:
    """Whether RS_PROFILE asks for little memory; ConfigurationError for another value than lean and normal."""
    name = os.environ.get("RS_PROFILE", "")
    if name not in PROFILES:
        raise ConfigurationError(f"RS_PROFILE is {name!r}", remedy="use lean or normal")
    return PROFILES[name]


def small_java(environment: Mapping[str, str]) -> str:
    """The options of a Java with little to do; a collector that `environment` chooses for Java holds.

    >>> small_java({})
    '-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC'
    >>> small_java({"JDK_JAVA_OPTIONS": "-XX:+UseParallelGC"})
    '-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m'
    """
    chosen = any("GC" in environment.get(name, "") for name in JAVA_VARIABLES)
    return SMALL_JAVA if chosen else f"{SMALL_JAVA} {SMALL_COLLECTOR}"


# What Spark keeps of jobs and plans that are over, for its UI: without one, only what a look at a failure needs. By
# default it is a thousand of each, which a stream fills within minutes.
WITHOUT_UI: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.streaming.ui.retainedQueries": "10",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How to make a session.

    `master` is `local[*]` or `spark://host:port`. `host` is the address of this machine at which cluster workers on
    other machines reach the driver, which then listens there. `memory` is the driver's heap in Spark's notation (empty:
    1g, and 512m if lean).
    `partitions` is the number of state and shuffle partitions (None: the cores of a local master), which a checkpoint
    keeps for life. `ui` turns Spark's own UI on, on loopback or `host`. `lean` trades speed for memory (lean.py).
    `java_options` are added to the project's own for the driver's Java. `extra` overrides all other settings.
    """

    master: str = field(default_factory=lambda: os.environ.get("RS_SPARK_MASTER", "local[*]"))
    host: str = field(default_factory=lambda: os.environ.get("RS_DRIVER_HOST", ""))
    memory: str = field(default_factory=lambda: os.environ.get("RS_DRIVER_MEMORY", ""))
    partitions: int | None = None
    ui: bool = False
    delta: bool = True
    lean: bool = field(default_factory=default_lean)
    java_options: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address at which the driver is reached, and the one on which it listens."""
        given = self.host or self.extra.get("spark.driver.host", "")
        if given or self.master.startswith("local") or urlsplit(self.master).hostname in NEARBY:
            return given or LOOPBACK
        raise ConfigurationError(
            f"the workers of {self.master} would look for the driver on their own machines",
            remedy="set RS_DRIVER_HOST, or spark.driver.host, to an address of this machine that they can reach",
        )

    def environment(self) -> dict[str, str]:
        """The environment of the JVM: without it Spark's own UI would listen on all addresses of this machine."""
        return {"SPARK_LOCAL_IP": self.address, **(lean.ENVIRONMENT if self.lean else {})}

    @property
    def is_one_process(self) -> bool:
        """Whether the driver's Java is the only one."""
        return self.master == "local" or self.master.startswith("local[")

    def conf(self, jars: tuple[Path, ...] = (), added: tuple[Path, ...] = ()) -> dict[str, str]:
        """All settings for a new session; ConfigurationError for a cluster that could not reach the driver.

        The jars `added` get a class loader of their own, so that the archive of the classes of `jars` keeps valid.
        """
        conf = {
            "spark.master": self.master,
            "spark.app.name": "rs-assets",
            "spark.driver.memory": self.memory or (lean.HEAP if self.lean else HEAP),
            "spark.driver.host": self.address,
            "spark.driver.bindAddress": self.address,
            "spark.ui.enabled": str(self.ui).lower(),
            "spark.sql.shuffle.partitions": str(self.partitions or os.cpu_count() or 2),
            # Without it the JVM prints a page before its log level is set.
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
            **SQL_SETTINGS,
            **FIXED_SETTINGS,
        }
        if not self.ui:
            conf |= WITHOUT_UI
        if self.lean:
            conf["spark.driver.extraJavaOptions"] += f" {lean.JAVA}"
            conf |= lean.SETTINGS
        if self.java_options:
            conf["spark.driver.extraJavaOptions"] += f" {self.java_options}"
        if self.is_one_process:
            conf |= ONE_PROCESS_SETTINGS
        return conf | self._jar_settings(jars, added) | dict(self.extra) | self._class_path(jars)

    def _jar_settings(self, jars: tuple[Path, ...], added: tuple[Path, ...]) -> dict[str, str]:
        if not jars:
            return {}
        conf = {"spark.sql.extensions": DELTA_EXTENSION, "spark.sql.catalog.spark_catalog": DELTA_CATALOG}
        conf = conf if self.delta else {}
        apart = added if self.is_one_process else (*jars, *added)
        if apart:
            conf["spark.jars"] = ",".join(map(str, apart))
        if not self.is_one_process:
            return conf
        if any(jar.name.startswith(FORKLESS_JAR) for jar in jars):
            # The machines of a cluster may not have it.
            conf["spark.hadoop.fs.file.impl"] = FORKLESS
        # Delta computes the files of a version in 50 tasks by default, for each version that it looks at.
        return conf | ({SNAPSHOT_PARTITIONS: str(self.partitions or os.cpu_count() or 2)} if self.delta else {})

    def _class_path(self, jars: tuple[Path, ...]) -> dict[str, str]:
        """The class path of the only Java: the jars, Spark's own, and then those of `extra`.

        Spark's launcher names one of its jars twice, and Java 21 then considers the class path different from the
        archive's. A jar that is already listed has no effect when Spark lists it again later.
        """
        if not jars or not self.is_one_process:
            return {}
        given = self.extra.get(CLASS_PATH)
        sparks = (*jars_of_pyspark("slf4j-api-*.jar"), *jars_of_pyspark("*.jar"))
        return {CLASS_PATH: os.pathsep.join([*dict.fromkeys(map(str, (*jars, *sparks))), *([given] if given else [])])}
