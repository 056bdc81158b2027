package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * One window a group, which never ends and is emitted in each batch that changes its row.
 *
 * The state `global` has the buffers of its aggregates and `last`, the greatest event time of its rows. With `lives`
 * milliseconds (0: for ever) a group expires, and its emitted row is retracted, when the watermark has passed `last` by
 * that time. At the end of input, where the watermark is `waits` before the end of time, it does not expire.
 */
class GlobalWindows(aggregation: Aggregation, changes: Changes, lives: Long, waits: Long)
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var inOrder: RowsInOrder = _
  private val parts = aggregation.buffer.size

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    inOrder = new RowsInOrder(aggregation)
    val kept = StructType(aggregation.stored(Seq(GlobalWindows.Last))).add(GlobalWindows.Last, TimestampType)
    state = getHandle.getValueState[Row](GlobalWindows.State, Encoders.row(kept), TTLConfig.NONE)
    buffer = new Buffer(aggregation)
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = Option(state.get())
    val told = before.map(evaluated(group, _))
    // Expired groups are removed before rows are added.
    val alive = before.filter(lives == 0 || due(_) > timers.getCurrentWatermarkInMs())
    var last = alive.fold(Long.MinValue)(lastIn)
    buffer.load(alive.orNull)
    rows.foreach { row =>
      last = math.max(last, inOrder.micros(row))
      buffer.add(row)
    }
    val now = buffer.evaluated(inOrder.key(group, 0, 0))
    val kept = Row.fromSeq(buffer.stored() :+ microsToInstant(last))
    if (lives > 0 && !over(timers)) Timers.move(getHandle, before.map(due), Some(due(kept)))
    state.update(kept)
    changes.rows(told, Some(now)).iterator
  }

  override def handleExpiredTimer(group: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] =
    if (over(timers)) Iterator.empty
    else {
      val told = evaluated(group, state.get())
      state.clear()
      changes.rows(Some(told), None).iterator
    }

  /** The emitted row, from state: each batch has emitted all of it. */
  private def evaluated(group: Row, kept: Row): Seq[Any] = {
    buffer.load(kept)
    buffer.evaluated(inOrder.key(group, 0, 0))
  }

  /** Whether the input has ended. */
  private def over(timers: TimerValues): Boolean = timers.getCurrentWatermarkInMs() + waits >= Timers.End

  /** When the watermark has passed the rows by their lifetime. */
  private def due(kept: Row): Long = Timers.expiry(lastIn(kept)) + lives
  private def lastIn(kept: Row): Long = inOrder.microsIn(kept, parts)
}

object GlobalWindows {
  val State = "global"
  private val Last = "last"

  /**
   * The rows of `windows`, an aggregation whose first key is the place of a row, for each group of the other keys: its
   * columns, those of a firing, and whether the row retracts an earlier one. If rows are `ranked` the last column is
   * an array, in which unchanged elements are null.
   */
  def apply(windows: DataFrame, ranked: Boolean, lives: Long, waits: Long): DataFrame =
    RowsInOrder.processed(
      windows,
      new GlobalWindows(_, new Changes(ranked), lives, waits),
      aggregation => Changes.told(FiringWindows.told(aggregation), aggregation, ranked))
}
