package org.apache.spark.sql.rsassets

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path}
import java.util

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The stream of another source (option `rs.source`), up to the offset in a file (option `rs.end`).
 *
 * The writer to that source records in the file how far it is complete, as JSON of the source's offsets; without the
 * file nothing is complete. So a batch never ends within one write, which brokers show partition by partition.
 */
class NotedSource extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    NotedSource.inner(options).inferSchema(options)

  override def getTable(schema: StructType, parts: Array[Transform], options: util.Map[String, String]): Table = {
    val given = new CaseInsensitiveStringMap(options)
    NotedSource.inner(given).getTable(schema, parts, options) match {
      case table: SupportsRead => new NotedTable(table)
      case other => throw new IllegalArgumentException(s"${other.name} cannot be read")
    }
  }
}

object NotedSource {
  val Source = "rs.source"
  val End = "rs.end"

  private def inner(options: CaseInsensitiveStringMap): TableProvider =
    DataSource.lookupDataSource(options.get(Source), SQLConf.get).getDeclaredConstructor().newInstance() match {
      case provider: TableProvider => provider
      case other => throw new IllegalArgumentException(s"$other is not a source of tables")
    }
}

private class NotedTable(inner: SupportsRead) extends Table with SupportsRead {
  override def name: String = inner.name
  override def columns: Array[Column] = inner.columns
  override def capabilities: util.Set[TableCapability] = util.EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => {
    val scan = inner.newScanBuilder(options).build()
    new NotedScan(scan, Path.of(options.get(NotedSource.End)))
  }
}

private class NotedScan(inner: Scan, end: Path) extends Scan {
  override def readSchema: StructType = inner.readSchema
  override def description: String = s"${inner.description} up to $end"
  override def columnarSupportMode: Scan.ColumnarSupportMode = inner.columnarSupportMode
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new NotedStream(inner.toMicroBatchStream(checkpoint), end)
}

/** With a trigger that ends, the end is the content of the file when the query started. */
private class NotedStream(inner: MicroBatchStream, end: Path) extends MicroBatchStream with SupportsTriggerAvailableNow {
  private var fixed: Option[Option[Offset]] = None
  @volatile private var latest: Offset = _

  override def prepareForTriggerAvailableNow(): Unit = fixed = Some(noted())

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    latest = fixed.getOrElse(noted()).getOrElse(start)
    latest
  }

  override def latestOffset(): Offset = throw new UnsupportedOperationException("use latestOffset(start, limit)")
  override def reportLatestOffset(): Offset = latest
  override def initialOffset(): Offset = inner.initialOffset()
  override def deserializeOffset(json: String): Offset = inner.deserializeOffset(json)
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    inner.planInputPartitions(start, end)
  override def createReaderFactory(): PartitionReaderFactory = inner.createReaderFactory()
  override def commit(end: Offset): Unit = inner.commit(end)
  override def stop(): Unit = inner.stop()
  override def toString: String = s"$inner up to $end"

  private def noted(): Option[Offset] =
    try Some(inner.deserializeOffset(new String(Files.readAllBytes(end), UTF_8)))
    catch { case _: NoSuchFileException => None }
}
