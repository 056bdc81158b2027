package org.apache.spark.sql.rsassets

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Ascending, BoundReference, Descending, GetStructField, InterpretedOrdering, SortOrder}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The first `n` rows of each group of a table, with their numbers.
 *
 * The state `table_top` has the rows of a group by their own keys `own`. A row is a struct, whose fields `by` order it,
 * each descending or not; then its own key does. Without `numbers` a row whose number alone changes does not change.
 */
class TableTops(rowType: StructType, own: StructType, by: Seq[(Int, Boolean)], n: Int, numbers: Boolean)
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var kept: MapState[Row, Row] = _
  @transient private var toSort: Any => Any = _
  @transient private var order: Ordering[InternalRow] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val (key, row) = (Encoders.row(Aggregation.stored(own)), Encoders.row(Aggregation.stored(rowType)))
    kept = getHandle.getMapState[Row, Row](TableTops.State, key, row, TTLConfig.NONE)
    toSort = CatalystTypeConverters.createToCatalystConverter(new StructType().add("row", rowType).add("own", own))
    def field(of: Int, kind: StructType, at: Int) = GetStructField(BoundReference(of, kind, nullable = true), at)
    order = new InterpretedOrdering(
      by.map { case (at, down) => SortOrder(field(0, rowType, at), if (down) Descending else Ascending) } ++
        own.indices.map(at => SortOrder(field(1, own, at), Ascending)))
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = kept.iterator().toMap
    val changed = rows.toSeq.groupBy(_.getStruct(2)).map { case (key, both) =>
      key -> both.find(!_.getBoolean(1)).map(_.getStruct(0))
    }
    changed.foreach {
      case (key, Some(row)) => kept.updateValue(key, row)
      case (key, None) => kept.removeKey(key)
    }
    val (was, is) = (numbered(before), numbered(before -- changed.keys ++ changed.collect { case (key, Some(row)) => key -> row }))
    (was.keys ++ is.keys.filterNot(was.contains)).iterator.flatMap { key =>
      TableFrames.changes(was.get(key), is.get(key)).map { case (one, gone) => Row.fromSeq(group.toSeq ++ one.toSeq :+ gone) }
    }.toSeq.iterator
  }

  /** The first rows with their numbers, by their own keys. */
  private def numbered(rows: Map[Row, Row]): Map[Row, Row] = {
    val sorted = rows.toSeq.map { case (key, row) => (toSort(Row(row, key)).asInstanceOf[InternalRow], key, row) }
      .sortBy(_._1)(order)
    sorted.take(n).zipWithIndex.map { case ((_, key, row), at) => key -> Row(row, if (numbers) at + 1 else 0) }.toMap
  }
}

object TableTops {
  val State = "table_top"

  /**
   * The changes of the first rows of `frame`: row, whether it goes, its own key; then the group. `by` are the names of
   * fields of the row, after `-` if they descend.
   */
  def apply(frame: DataFrame, by: java.util.List[String], n: Int, numbers: Boolean): DataFrame = {
    val Seq(row, own) = Seq(0, 2).map(frame.schema(_).dataType.asInstanceOf[StructType])
    val order = by.asScala.toSeq.map(name => row.fieldIndex(name.drop(1)) -> name.startsWith("-"))
    TableFrames.processed(frame, 3)(keys => new TableTops(row, own, order, n, numbers) ->
      StructType(keys).add("row", row).add("rank", IntegerType).add("_rs_retracted", BooleanType))
  }
}
