package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Ascending, BoundReference, InterpretedOrdering, RowOrdering, SortOrder}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types.StructType

/**
 * Joins each left row with the newest right row at or before its time, at most `tolerance` microseconds earlier (-1:
 * any). If rows have `ends`, right ones whose first field is false end the row before them, and match nothing.
 *
 * Left rows wait in the state `asof` until the watermark has reached their time. Right rows wait there if later than
 * the watermark; of the earlier ones only the newest is kept, until it exceeds the tolerance or until the end of input
 * (the watermark `end` in milliseconds). Right rows with equal times are ordered by their fields.
 */
class AsOfRows(sides: Sides, inner: Boolean, tolerance: Long, end: Long, ends: Boolean)
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var order: Ordering[Waiting] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    state = getHandle.getValueState[Row](AsOfRows.State, Encoders.row(sides.kept), TTLConfig.NONE)
    val fields = sides.right.dataType.asInstanceOf[StructType].zipWithIndex.collect {
      case (field, place) if RowOrdering.isOrderable(field.dataType) =>
        SortOrder(BoundReference(place, field.dataType, nullable = true), Ascending)
    }
    val rows = new InterpretedOrdering(fields)
    val converted = CatalystTypeConverters.createToCatalystConverter(sides.right.dataType)
    def internal(row: Waiting) = converted(row.row).asInstanceOf[InternalRow]
    order = (one, other) =>
      if (one.at != other.at) one.at.compare(other.at) else rows.compare(internal(one), internal(other))
  }

  override def handleInputRows(key: Row, input: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (left, right) = sides.waitingIn(state.get())
    val due = next(left, right)
    input.map(sides.arrived).foreach { case (ofLeft, row) => (if (ofLeft) left else right) += row }
    val now = timers.getCurrentWatermarkInMs() * 1000
    keep(left, pruned(right.sorted(order), math.min(now, left.view.map(_.at).minOption.getOrElse(now))), due)
    Iterator.empty
  }

  override def handleExpiredTimer(key: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val (left, right) = sides.waitingIn(state.get())
    val now = timers.getCurrentWatermarkInMs() * 1000
    val (due, waiting) = left.partition(_.at <= now)
    val told = due.flatMap { row =>
      val found = right.view.takeWhile(_.at <= row.at).lastOption.filter(found => there(found) && near(found, row.at))
      Option.unless(inner && found.isEmpty)(sides.told(key, row.row, found.map(_.row).orNull))
    }
    keep(waiting, if (now / 1000 >= end) mutable.ArrayBuffer.empty else pruned(right, now), None)
    told.iterator
  }

  /** Of the rows up to `until` only the newest, if a later left row may match it. */
  private def pruned(right: mutable.ArrayBuffer[Waiting], until: Long): mutable.ArrayBuffer[Waiting] = {
    val (old, fresh) = right.span(_.at <= until)
    old.lastOption.filter(row => there(row) && near(row, until)).fold(fresh)(_ +: fresh)
  }

  private def there(row: Waiting): Boolean = !ends || row.row.getBoolean(0)

  private def near(row: Waiting, at: Long): Boolean = tolerance < 0 || at - row.at <= tolerance

  private def keep(left: mutable.ArrayBuffer[Waiting], right: mutable.ArrayBuffer[Waiting], before: Option[Long]): Unit = {
    val due = next(left, right)
    Timers.move(getHandle, before, due)
    if (due.isEmpty) state.clear() else state.update(sides.stored(left, right))
  }

  /** When the state changes without input: left rows are emitted, right rows expire, or the input ends. */
  private def next(left: Iterable[Waiting], right: mutable.ArrayBuffer[Waiting]): Option[Long] = {
    val told = left.view.map(_.at).minOption
    val replaced = Option.when(right.size > 1)(right.last.at)
    // A row still matches exactly `tolerance` after its time; a microsecond later it does not.
    val gone = right.lastOption.map(row => if (tolerance < 0) end * 1000 else math.min(row.at + tolerance + 1, end * 1000))
    Seq(told, replaced, gone).flatten.minOption.map(Timers.expiry)
  }
}

object AsOfRows {
  val State = "asof"

  /** The join of the sides in `united`. */
  def apply(united: DataFrame, inner: Boolean, tolerance: Long, end: Long, ends: Boolean): DataFrame =
    Sides.processed(united)(new AsOfRows(_, inner, tolerance, end, ends))
}
