package org.apache.spark.sql.rsassets

import java.util

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{MapGroups, SerializeFromObject}
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.types.{StructField, StructType, TimestampType}

/**
 * The rows of a split in the order of their records, each with the greatest event time of the earlier records.
 *
 * The first value of a split comes from `noted` (JSON, in microseconds; null: the local property of the tasks). Rows
 * made from one record have equal positions, and none of them is earlier than another.
 */
case class MarksBefore(place: Int, at: Int, noted: String) extends ((Any, Iterator[Any]) => IterableOnce[Any]) {
  @transient private lazy val latest: util.Map[String, Number] = {
    val told = Option(noted).orElse(Option(TaskContext.get()).map(_.getLocalProperty(MarksBefore.Property))).orNull
    require(told != null, "the event times of the splits before this batch are not set")
    new ObjectMapper().readValue(told, classOf[util.Map[String, Number]])
  }

  override def apply(split: Any, rows: Iterator[Any]): IterableOnce[Any] = {
    val mark = new GenericInternalRow(1)
    val made = new JoinedRow
    var (begun, last) = (false, 0L)
    var reached = Option(latest.get(split.toString)).map(_.longValue)
    rows.map { case row: InternalRow =>
      if (!begun || row.getLong(place) != last) {
        begun = true
        last = row.getLong(place)
        mark.update(0, reached.map(Long.box).orNull)
      }
      if (!row.isNullAt(at)) reached = Some(math.max(row.getLong(at), reached.getOrElse(Long.MinValue)))
      made(row, mark)
    }
  }
}

object MarksBefore {
  val Property = "rs_assets.splits"

  /** `rows` with a column `mark`; `split`, `place` and `at` are columns of them. */
  def marked(rows: DataFrame, split: String, place: String, at: String, mark: String, noted: String): DataFrame = {
    val known = FiringWindows.analyzed(rows)
    val Seq(by, order, time) = Seq(split, place, at).map(name => known.output.indexWhere(_.name == name))
    val fields = known.output.map(in => StructField(in.name, in.dataType, in.nullable)) :+ StructField(mark, TimestampType)
    // Rows pass through in Spark's own form: their values are not converted, so nothing can be lost.
    val made = AttributeReference("_rs_row", StructType(fields), nullable = false)()
    val groups = MapGroups(
      MarksBefore(order, time, noted),
      known.output(by),
      CreateStruct(known.output),
      Seq(known.output(by)),
      known.output,
      Seq(SortOrder(known.output(order), Ascending)),
      made,
      known)
    val named = fields.indices.map(i => Alias(GetStructField(made, i), fields(i).name)())
    Dataset.ofRows(rows.sparkSession.asInstanceOf[SparkSession], SerializeFromObject(named, groups)).toDF()
  }
}
