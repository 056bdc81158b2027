package org.apache.spark.sql.rsassets

import java.util

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.{HasStreamingSourceIdentifyingName, StreamingRelationV2}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Streaming frames whose sources, some of them, have no rows yet.
 *
 * A held source of Spark's newer interface keeps its place in the log, and determines its first offset, which is
 * "latest" at that moment. Of the older interface (files, Delta) the log has no offset, as before the first file.
 */
object HeldSources {

  /** `frame`, in which the sources with these names have no rows. */
  def apply(frame: DataFrame, names: util.List[String]): DataFrame = {
    val held = names.asScala.toSet
    // Spark reads equal relations once, and they are equal only with the same table.
    val known = mutable.Map.empty[AnyRef, Table]
    def named(relation: HasStreamingSourceIdentifyingName): Boolean =
      relation.sourceIdentifyingName.nameOpt.exists(held)
    val plan = FiringWindows.analyzed(frame).transformUp {
      case relation: StreamingRelationV2 if named(relation) =>
        val table = relation.table
        table match {
          case read: SupportsRead if table.capabilities.contains(TableCapability.MICRO_BATCH_READ) =>
            relation.copy(table = known.getOrElseUpdate(table, new HeldTable(table.name, Some(read), null)))
          case _ => alone(relation, relation.output, known.getOrElseUpdate(table, blank(relation)))
        }
      case relation: StreamingRelation if named(relation) =>
        val output = relation.output.map(_.asInstanceOf[AttributeReference])
        alone(relation, output, known.getOrElseUpdate(relation.dataSource, blank(relation)))
    }
    Dataset.ofRows(frame.sparkSession.asInstanceOf[SparkSession], plan)
  }

  private def alone(
      relation: LogicalPlan with HasStreamingSourceIdentifyingName,
      output: Seq[AttributeReference],
      table: Table): LogicalPlan = {
    val options = new CaseInsensitiveStringMap(util.Map.of())
    StreamingRelationV2(None, table.name, table, options, output, None, None, None, relation.sourceIdentifyingName)
  }

  private def blank(relation: LogicalPlan with HasStreamingSourceIdentifyingName): Table =
    new HeldTable(relation.sourceIdentifyingName.nameOpt.get, None, DataTypeUtils.fromAttributes(relation.output))
}

/** The table `inner` without rows; `fields` are the columns if there is none. */
private class HeldTable(title: String, inner: Option[SupportsRead], fields: StructType) extends Table with SupportsRead {
  override def name: String = title
  override def columns: Array[Column] =
    inner.map(_.columns).getOrElse(fields.fields.map(field => Column.create(field.name, field.dataType)))
  override def capabilities: util.Set[TableCapability] = util.EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new HeldScan(title, inner.map(_.newScanBuilder(options).build()), fields)
}

private class HeldScan(title: String, inner: Option[Scan], fields: StructType) extends Scan {
  override def readSchema: StructType = inner.map(_.readSchema).getOrElse(fields)
  override def description: String = s"$title, held"
  override def columnarSupportMode: Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new HeldStream(title, inner.map(_.toMicroBatchStream(checkpoint)))
}

/** Stays where it is: at its first offset, which is null without an inner stream. */
private class HeldStream(title: String, inner: Option[MicroBatchStream])
    extends MicroBatchStream with SupportsTriggerAvailableNow {
  override def prepareForTriggerAvailableNow(): Unit = ()
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = start
  override def latestOffset(): Offset = throw new UnsupportedOperationException("use latestOffset(start, limit)")
  override def initialOffset(): Offset = inner.map(_.initialOffset()).orNull
  override def deserializeOffset(json: String): Offset =
    inner.map(_.deserializeOffset(json)).getOrElse(new HeldOffset(json))
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = Array.empty
  // Made for each batch, and used for each partition, of which there are none.
  override def createReaderFactory(): PartitionReaderFactory = null
  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = inner.foreach(_.stop())
  override def toString: String = s"${inner.getOrElse(title)}, held until a table is loaded"
}

private class HeldOffset(override val json: String) extends Offset
