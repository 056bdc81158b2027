package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Windows of `size` microseconds with both ends included: one that ends at each row and one that starts after each row.
 *
 * A window that has rows fires when the watermark, `waits` milliseconds below the greatest event time, has passed
 * its end. The state `sliding` has the rows of a group that later windows may contain, and the watermark `until` which
 * windows have fired.
 */
class SlidingWindows(aggregation: Aggregation, size: Long, waits: Long) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var inOrder: RowsInOrder = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    inOrder = new RowsInOrder(aggregation)
    val kept = new StructType().add("until", TimestampType).add("waiting", ArrayType(inOrder.rowType))
    state = getHandle.getValueState[Row](SlidingWindows.State, Encoders.row(kept), TTLConfig.NONE)
    buffer = new Buffer(aggregation)
  }

  override def handleInputRows(group: Row, input: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = Option(state.get())
    val until = before.fold(-1L)(inOrder.microsIn(_, 0))
    val rows = before.fold(Seq.empty[Row])(_.getSeq[Row](1))
    keep(before.map(_ => due(rows, until)), inOrder.sorted(rows ++ input), until)
    Iterator.empty
  }

  override def handleExpiredTimer(group: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val kept = state.get()
    val (until, rows) = (inOrder.microsIn(kept, 0), kept.getSeq[Row](1))
    val now = timers.getCurrentWatermarkInMs() * 1000
    val told = ends(rows).filter(end => until < end && end <= now).flatMap { end =>
      val within = rows.filter(row => end - size <= inOrder.micros(row) && inOrder.micros(row) <= end)
      Option.when(within.nonEmpty) {
        buffer.load(null)
        within.foreach(buffer.add)
        val fireAt = microsToInstant(end + waits * 1000)
        Row.fromSeq(buffer.evaluated(inOrder.key(group, end - size, end)) ++ Seq(fireAt, true))
      }
    }
    keep(None, rows.filter(inOrder.micros(_) >= now - size), now)
    told.iterator
  }

  /** The ends of the windows of `rows`, without duplicates, in order. */
  private def ends(rows: Seq[Row]): Seq[Long] =
    rows.map(inOrder.micros).distinct.flatMap(at => Seq(at, at + size + 1)).distinct.sorted

  /** When the next window ends, in milliseconds; a timer expires when the watermark has reached it. */
  private def due(rows: Seq[Row], until: Long): Long =
    Timers.expiry(ends(rows).find(_ > until).get)

  private def keep(before: Option[Long], rows: Seq[Row], until: Long): Unit = {
    Timers.move(getHandle, before, Option.when(rows.nonEmpty)(due(rows, until)))
    if (rows.isEmpty) state.clear() else state.update(Row(microsToInstant(until), rows))
  }
}

object SlidingWindows {
  val State = "sliding"

  /** The rows of such windows, for an aggregation whose first key is the position of a row. */
  def apply(windows: DataFrame, size: Long, waits: Long): DataFrame =
    RowsInOrder.processed(windows, new SlidingWindows(_, size, waits))
}
