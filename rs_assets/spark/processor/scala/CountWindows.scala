package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Windows of `size` rows of a group, in the order of event time.
 *
 * Rows wait in the state `counted` until the watermark, which lags the greatest event time by `waits` milliseconds, has
 * passed them, so no row can still come between them. Then they are counted; rows with equal times are ordered by the
 * columns that the aggregates read. At the end of input an incomplete window fires.
 */
class CountWindows(aggregation: Aggregation, size: Int, waits: Long) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var inOrder: RowsInOrder = _
  private val parts = aggregation.buffer.size

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    inOrder = new RowsInOrder(aggregation)
    val kinds = Seq(IntegerType, TimestampType, TimestampType, ArrayType(inOrder.rowType))
    val own = CountWindows.Own.zip(kinds).map { case (name, kind) => StructField(name, kind) }
    val kept = StructType(aggregation.stored(CountWindows.Own) ++ own)
    state = getHandle.getValueState[Row](CountWindows.State, Encoders.row(kept), TTLConfig.NONE)
    buffer = new Buffer(aggregation)
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = Option(state.get())
    val waiting = before.fold(Seq.empty[Row])(waitingIn)
    val kept = before.fold { buffer.load(null); buffer.stored() ++ Seq(0, null, null) }(_.toSeq.init)
    keep(before, inOrder.sorted(waiting ++ rows), kept)
    Iterator.empty
  }

  override def handleExpiredTimer(group: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val now = timers.getCurrentWatermarkInMs()
    val kept = state.get()
    val (due, waiting) = waitingIn(kept).span(time(_) <= now)
    var count = kept.getInt(parts)
    var start = if (count > 0) inOrder.microsIn(kept, parts + 1) else 0L
    var end = if (count > 0) inOrder.microsIn(kept, parts + 2) else 0L
    buffer.load(if (count > 0) Row.fromSeq(kept.toSeq.take(parts)) else null)
    val told = Seq.newBuilder[Row]
    def fire(): Unit = {
      val fireAt = microsToInstant(end + waits * 1000)
      told += Row.fromSeq(buffer.evaluated(inOrder.key(group, start, end)) ++ Seq(fireAt, true))
      buffer.load(null)
      count = 0
    }
    due.foreach { row =>
      end = inOrder.micros(row)
      if (count == 0) start = end
      buffer.add(row)
      count += 1
      if (count == size) fire()
    }
    if (count > 0 && now + waits >= Timers.End) fire()
    val place = if (count > 0) Seq(microsToInstant(start), microsToInstant(end)) else Seq(null, null)
    keep(None, waiting, buffer.stored() ++ (count +: place))
    told.result().iterator
  }

  /** Store the waiting rows and the counted ones, with one timer; the previous state `before` has a timer. */
  private def keep(before: Option[Row], waiting: Seq[Row], counted: Seq[Any]): Unit = {
    val now = Row.fromSeq(counted :+ waiting)
    val empty = waiting.isEmpty && counted(parts) == 0
    Timers.move(getHandle, before.map(due), Option.when(!empty)(due(now)))
    if (empty) state.clear() else state.update(now)
  }

  /** When the first waiting row is counted, or the end; a timer expires when the watermark has reached it. */
  private def due(kept: Row): Long =
    waitingIn(kept).headOption.fold(Timers.End - waits)(row => time(row))

  private def waitingIn(kept: Row): Seq[Row] = kept.getSeq[Row](kept.length - 1)
  /** In milliseconds, like the watermark. */
  private def time(row: Row): Long = Timers.expiry(inOrder.micros(row))
}

object CountWindows {
  val State = "counted"
  private val Own = Seq("rows", "start", "end", "waiting")

  /**
   * The rows of `windows`, an aggregation whose first key is the position of a row, for each `size` rows of the other
   * keys: its columns, and those of a firing.
   */
  def apply(windows: DataFrame, size: Int, waits: Long): DataFrame =
    RowsInOrder.processed(windows, new CountWindows(_, size, waits))
}
