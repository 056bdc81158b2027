package org.apache.spark.sql.rsassets

import java.time.Instant

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Ascending, BoundReference, GetStructField, InterpretedOrdering, RowOrdering, SortOrder}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.instantToMicros
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The newest row of each key: the greatest by `order`, of equal ones the greatest in the order of the batch.
 *
 * The state `table` has the row, null for a key that is gone, and the first `ordered` fields of its order, by which a
 * later batch is compared with it. Without them a later batch is newer, and a key that is gone has no state.
 *
 * With `lives` milliseconds (0: for ever) state also has the event time of the row; it goes, and so does the memory of a
 * key that is gone, when the watermark has passed that time by as long. An input row that old is not there at all. At
 * the end of input nothing goes.
 */
class TableRows(rowType: StructType, orderType: StructType, ordered: Int, lives: Long)
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var toInput: Any => Any = _
  @transient private var inBatch: Ordering[InternalRow] = _
  @transient private var inState: Ordering[InternalRow] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val kept = new StructType().add("row", Aggregation.stored(rowType)).add("at", Aggregation.stored(orderOnly))
    val timed = if (lives > 0) kept.add(TableRows.Since, TimestampType) else kept
    state = getHandle.getValueState[Row](TableRows.State, Encoders.row(timed), TTLConfig.NONE)
    toInput = CatalystTypeConverters.createToCatalystConverter(TableRows.inputType(rowType, orderType, lives > 0))
    val fields = orderType.indices.map(GetStructField(BoundReference(1, orderType, nullable = true), _))
    val row = rowType.indices.map(GetStructField(BoundReference(0, rowType, nullable = true), _))
    inBatch = TableRows.ordering(fields ++ row)
    inState = TableRows.ordering(fields.take(ordered))
  }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (before, now) = (Option(state.get()), timers)
    val living = rows.filter(row => lives == 0 || due(row.getInstant(3)) > now.getCurrentWatermarkInMs())
    val newest = living.map(row => row -> toInput(row).asInstanceOf[InternalRow]).reduceOption { (one, other) =>
      if (inBatch.compare(one._2, other._2) > 0) one else other
    }
    // One that is due goes by its timer, unless a row replaces it.
    val alive = before.filter(kept => lives == 0 || due(since(kept)) > now.getCurrentWatermarkInMs())
    newest.filterNot(row => alive.exists(older(row._2, _))).fold(Iterator.empty[Row]) { case (input, _) =>
      val row = if (input.getBoolean(2)) null else input.getStruct(0)
      val kept = Option.when(row != null || ordered > 0)(Row.fromSeq(Seq(row, orderOf(input)) ++ input.toSeq.drop(3)))
      if (lives > 0) Timers.move(getHandle, before.map(since).map(due), kept.map(since).map(due))
      kept.fold(state.clear())(state.update)
      changed(key, before.flatMap(rowOf), Option(row))
    }
  }

  override def handleExpiredTimer(key: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] =
    if (timers.getCurrentWatermarkInMs() >= Timers.End) Iterator.empty
    else {
      val before = rowOf(state.get())
      state.clear()
      changed(key, before, None)
    }

  private def changed(key: Row, before: Option[Row], now: Option[Row]): Iterator[Row] =
    TableFrames.changes(before, now).map { case (row, retracted) => Row.fromSeq(key.toSeq ++ Seq(row, retracted)) }.iterator

  private def rowOf(kept: Row): Option[Row] = Option(kept.getStruct(0))
  private def since(kept: Row): Instant = kept.getInstant(2)

  /** When the watermark has passed a row by its lifetime. */
  private def due(at: Instant): Long = Timers.expiry(instantToMicros(at)) + lives

  private def older(newest: InternalRow, kept: Row): Boolean = ordered > 0 && {
    val at = kept.getStruct(1).toSeq ++ Seq.fill(orderType.size - ordered)(null)
    inState.compare(newest, toInput(Row.fromSeq(Seq(null, Row.fromSeq(at), false) ++ Option.when(lives > 0)(null))).asInstanceOf[InternalRow]) < 0
  }

  private def orderOf(row: Row): Row = Row.fromSeq(row.getStruct(1).toSeq.take(ordered))
  private def orderOnly: StructType = StructType(orderType.take(ordered))
}

object TableRows {
  val State = "table"
  private val Since = "since"

  /**
   * The changes of the rows in `frame`: row, order, whether the row is gone, its event time if rows live for a time;
   * then the keys.
   */
  def apply(frame: DataFrame, ordered: Int, lives: Long): DataFrame = {
    val Seq(row, order) = frame.schema.take(2).map(_.dataType.asInstanceOf[StructType])
    val (inputs, time) = if (lives > 0) (4, TimeMode.EventTime()) else (3, TimeMode.None())
    TableFrames.processed(frame, inputs, time)(keys =>
      new TableRows(row, order, ordered, lives) -> StructType(keys).add("row", row).add("_rs_retracted", BooleanType))
  }

  private def inputType(row: StructType, order: StructType, timed: Boolean): StructType = {
    val input = new StructType().add("row", row).add("order", order).add("gone", BooleanType)
    if (timed) input.add(Since, TimestampType) else input
  }

  private[rsassets] def ordering(fields: Seq[GetStructField]): Ordering[InternalRow] =
    new InterpretedOrdering(fields.filter(field => RowOrdering.isOrderable(field.dataType)).map(SortOrder(_, Ascending)))
}
