package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.DateTimeUtils.instantToMicros
import org.apache.spark.sql.streaming._

/**
 * Which rows a join gives: `pairs`, left rows that have a partner once (`found`), and rows of either side that have none.
 *
 * A right row lies at most `before` before its partner and at most `after` behind it, in microseconds; with `windowed`
 * the last of the keys is a window, in which all rows meet. With `early` a row without partner comes with the batch that
 * it came in, and is taken back when it meets one.
 */
case class Meeting(
    pairs: Boolean,
    found: Boolean,
    leftAlone: Boolean,
    rightAlone: Boolean,
    before: Long,
    after: Long,
    windowed: Boolean,
    early: Boolean)

/** Joins by interval or by window. The state `join` has the rows of a key that may still meet others. */
class MeetingRows(sides: Sides, meeting: Meeting, condition: Option[Expression])
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var holds: Option[Condition] = _

  // Of the key that is looked at: its rows of each side, and what they tell.
  @transient private var left: mutable.ArrayBuffer[Waiting] = _
  @transient private var right: mutable.ArrayBuffer[Waiting] = _
  @transient private var rows: mutable.ArrayBuffer[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    state = getHandle.getValueState[Row](MeetingRows.State, Encoders.row(sides.kept), TTLConfig.NONE)
    holds = condition.map(new Condition(_, sides))
  }

  override def handleInputRows(key: Row, input: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    begin()
    val due = next(key)
    val (oldLeft, oldRight) = (left.size, right.size)
    input.map(sides.arrived).foreach {
      case (true, row) =>
        right.filter(met(row, _)).foreach(meet(key, row, _))
        left += row
      case (false, row) =>
        left.filter(met(_, row)).foreach(meet(key, _, row))
        right += row
    }
    if (meeting.early) {
      if (meeting.leftAlone) left.drop(oldLeft).filterNot(_.met).foreach(tellAlone(key, _, ofLeft = true))
      if (meeting.rightAlone) right.drop(oldRight).filterNot(_.met).foreach(tellAlone(key, _, ofLeft = false))
    }
    end(key, due)
  }

  override def handleExpiredTimer(key: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    begin()
    val now = timers.getCurrentWatermarkInMs() * 1000
    if (meeting.leftAlone) left.filter(over(key, _, ofLeft = true, now)).foreach(tellAlone(key, _, ofLeft = true))
    if (meeting.rightAlone) right.filter(over(key, _, ofLeft = false, now)).foreach(tellAlone(key, _, ofLeft = false))
    left.filterInPlace(lastTime(key, _, ofLeft = true) > now)
    right.filterInPlace(lastTime(key, _, ofLeft = false) > now)
    end(key, None)
  }

  private def begin(): Unit = {
    val (ofLeft, ofRight) = sides.waitingIn(state.get())
    left = ofLeft
    right = ofRight
    rows = mutable.ArrayBuffer.empty
  }

  /** Keep the rows, with one timer; there is one for `before`. */
  private def end(key: Row, before: Option[Long]): Iterator[Row] = {
    // Where only the first partner counts, a row that has one waits for nothing.
    if (!meeting.pairs) left.filterInPlace(!_.met)
    val due = next(key)
    if (due != before) {
      before.foreach(getHandle.deleteTimer)
      due.foreach(getHandle.registerTimer)
    }
    if (due.isEmpty) state.clear() else state.update(sides.stored(left, right))
    rows.iterator
  }

  private def met(one: Waiting, other: Waiting): Boolean = {
    val apart = other.at - one.at
    (meeting.windowed || -meeting.before <= apart && apart <= meeting.after) && holds.forall(_(one.row, other.row))
  }

  private def meet(key: Row, one: Waiting, other: Waiting): Unit = {
    if (one.told && !one.met) rows += sides.told(key, one.row, null, retracted = true)
    if (other.told && !other.met) rows += sides.told(key, null, other.row, retracted = true)
    if (meeting.pairs) rows += sides.told(key, one.row, other.row)
    else if (meeting.found && !one.met) rows += sides.told(key, one.row, null)
    one.met = true
    other.met = true
  }

  private def tellAlone(key: Row, row: Waiting, ofLeft: Boolean): Unit = {
    rows += (if (ofLeft) sides.told(key, row.row, null) else sides.told(key, null, row.row))
    row.told = true
  }

  /** Whether a row stays without partner, and nobody was told of it. */
  private def over(key: Row, row: Waiting, ofLeft: Boolean, now: Long): Boolean =
    !row.met && !row.told && lastTime(key, row, ofLeft) <= now

  /** The watermark behind which no partner of a row can come. */
  private def lastTime(key: Row, row: Waiting, ofLeft: Boolean): Long =
    if (meeting.windowed) instantToMicros(key.getStruct(key.length - 1).getInstant(1))
    else row.at + (if (ofLeft) meeting.after else meeting.before)

  private def next(key: Row): Option[Long] =
    (left.view.map(lastTime(key, _, ofLeft = true)) ++ right.view.map(lastTime(key, _, ofLeft = false))).minOption
      .map(Sides.expiry)
}

object MeetingRows {
  val State = "join"

  /** The join of the sides in `united`; `condition` is a column over them, or null. */
  def apply(united: DataFrame, meeting: Meeting, condition: DataFrame): DataFrame = {
    val expression = Option(condition).map(Sides.condition)
    Sides.processed(united)(new MeetingRows(_, meeting, expression))
  }
}
