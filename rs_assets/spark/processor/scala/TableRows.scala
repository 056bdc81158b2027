package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Ascending, BoundReference, GetStructField, InterpretedOrdering, RowOrdering, SortOrder}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The newest row of each key: the greatest by `order`, of equal ones the greatest in the order of the batch.
 *
 * The state `table` has the row, null for a key that is gone, and the first `ordered` fields of its order, by which a
 * later batch is compared with it. Without them a later batch is newer, and a key that is gone has no state.
 */
class TableRows(rowType: StructType, orderType: StructType, ordered: Int) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var toInput: Any => Any = _
  @transient private var inBatch: Ordering[InternalRow] = _
  @transient private var inState: Ordering[InternalRow] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val kept = new StructType().add("row", Aggregation.stored(rowType)).add("at", Aggregation.stored(orderOnly))
    state = getHandle.getValueState[Row](TableRows.State, Encoders.row(kept), TTLConfig.NONE)
    toInput = CatalystTypeConverters.createToCatalystConverter(TableRows.inputType(rowType, orderType))
    val fields = orderType.indices.map(GetStructField(BoundReference(1, orderType, nullable = true), _))
    val row = rowType.indices.map(GetStructField(BoundReference(0, rowType, nullable = true), _))
    inBatch = TableRows.ordering(fields ++ row)
    inState = TableRows.ordering(fields.take(ordered))
  }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = Option(state.get())
    val newest = rows.map(row => row -> toInput(row).asInstanceOf[InternalRow]).reduce { (one, other) =>
      if (inBatch.compare(one._2, other._2) > 0) one else other
    }
    if (before.exists(older(newest._2, _))) Iterator.empty
    else {
      val row = if (newest._1.getBoolean(2)) null else newest._1.getStruct(0)
      if (row == null && ordered == 0) state.clear() else state.update(Row(row, orderOf(newest._1)))
      TableFrames.changes(before.flatMap(rowOf), Option(row)).map { case (one, retracted) =>
        Row.fromSeq(key.toSeq ++ Seq(one, retracted))
      }.iterator
    }
  }

  private def rowOf(kept: Row): Option[Row] = Option(kept.getStruct(0))

  private def older(newest: InternalRow, kept: Row): Boolean = ordered > 0 && {
    val at = kept.getStruct(1).toSeq ++ Seq.fill(orderType.size - ordered)(null)
    inState.compare(newest, toInput(Row(null, Row.fromSeq(at), false)).asInstanceOf[InternalRow]) < 0
  }

  private def orderOf(row: Row): Row = Row.fromSeq(row.getStruct(1).toSeq.take(ordered))
  private def orderOnly: StructType = StructType(orderType.take(ordered))
}

object TableRows {
  val State = "table"

  /** The changes of the rows in `frame`: row, order and whether the row is gone; then the keys. */
  def apply(frame: DataFrame, ordered: Int): DataFrame = {
    val Seq(row, order) = frame.schema.take(2).map(_.dataType.asInstanceOf[StructType])
    TableFrames.processed(frame, 3)(
      keys => new TableRows(row, order, ordered) -> StructType(keys).add("row", row).add("_rs_retracted", BooleanType))
  }

  private def inputType(row: StructType, order: StructType): StructType =
    new StructType().add("row", row).add("order", order).add("gone", BooleanType)

  private def ordering(fields: Seq[GetStructField]): Ordering[InternalRow] =
    new InterpretedOrdering(fields.filter(field => RowOrdering.isOrderable(field.dataType)).map(SortOrder(_, Ascending)))
}
