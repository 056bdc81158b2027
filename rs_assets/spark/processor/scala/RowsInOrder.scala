package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Ascending, GetStructField, InterpretedOrdering, RowOrdering, SortOrder}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils.instantToMicros
import org.apache.spark.sql.streaming.StatefulProcessor
import org.apache.spark.sql.types._

/**
 * Sorts the input rows of an aggregation, whose last column is the position of the row, by event time; rows with equal
 * times are sorted by the other columns.
 */
class RowsInOrder(aggregation: Aggregation) {
  private val groupType = DataTypeUtils.fromAttributes(aggregation.keys.tail)
  private val toGroup = CatalystTypeConverters.createToCatalystConverter(groupType)
  private val toRow = CatalystTypeConverters.createToCatalystConverter(aggregation.inputType)
  private val order: Ordering[Row] = {
    // A struct is compared by its fields, if they have an order.
    val by = (aggregation.inputs.last +: aggregation.inputs.init).flatMap { in =>
      in.dataType match {
        case of: StructType => of.indices.map(GetStructField(in, _)) :+ in
        case _ => Seq(in)
      }
    }.filter(in => RowOrdering.isOrderable(in.dataType))
    val rows = new InterpretedOrdering(by.map(SortOrder(_, Ascending)), aggregation.inputs)
    (one, other) => rows.compare(toRow(one).asInstanceOf[InternalRow], toRow(other).asInstanceOf[InternalRow])
  }

  /** A row in state. */
  val rowType: StructType =
    StructType(aggregation.inputType.map(in => StructField(in.name, Aggregation.storedType(in.dataType))))

  def sorted(rows: Seq[Row]): Seq[Row] = rows.sorted(order)

  /** The event time of a row, in microseconds. */
  def micros(row: Row): Long = microsIn(row.getStruct(row.length - 1), 0)
  def microsIn(row: Row, field: Int): Long = instantToMicros(row.getInstant(field))

  /** The keys of a window of `group`. */
  def key(group: Row, start: Long, end: Long): InternalRow =
    InternalRow.fromSeq(InternalRow(start, end) +: toGroup(group).asInstanceOf[InternalRow].toSeq(groupType))
}

object RowsInOrder {

  /** The output of `processor` for `windows`, an aggregation whose first key is a row's position, by its other keys. */
  def processed(
      windows: DataFrame,
      processor: Aggregation => StatefulProcessor[Row, Row, Row],
      made: Aggregation => StructType = FiringWindows.told): DataFrame = {
    val (whole, rows) = Aggregation.of(FiringWindows.analyzed(windows))
    val aggregation = whole.copy(inputs = whole.inputs :+ whole.keys.head)
    FiringWindows.processed(windows.sparkSession, rows, aggregation.inputs, aggregation.keys.tail)(
      processor(aggregation),
      made(aggregation))
  }
}
