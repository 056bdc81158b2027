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
    early: Boolean) {

  /** Whether rows of a side come without a partner. */
  def alone(ofLeft: Boolean): Boolean = if (ofLeft) leftAlone else rightAlone

  /** Whether a row of a side goes on to wait when it has met one as if it had not, so that state need not know. */
  def forgets(ofLeft: Boolean): Boolean = !alone(ofLeft) && (pairs || !ofLeft)

  /** How long behind a row of a side its last partner may lie. */
  def reach(ofLeft: Boolean): Long = if (ofLeft) after else before

  /** The times of the partners that a row of a side may have. */
  def partners(at: Long, ofLeft: Boolean): (Long, Long) = (at - reach(!ofLeft), at + reach(ofLeft))
}

/**
 * Joins by interval or by window. The state `join` has the rows of a key that may still meet others, of each side those
 * of a stretch of time together: a batch reads and writes the stretches that its rows lie in or reach, and no others.
 */
class MeetingRows(sides: Sides, meeting: Meeting, condition: Option[Expression])
    extends StatefulProcessor[Row, Row, Row] {
  private val stretches = if (meeting.windowed) Stretches.One else Stretches.of(meeting.before + meeting.after)
  @transient private var state: MapState[Row, Row] = _
  @transient private var holds: Option[Condition] = _

  // Of the key that is looked at: the stretches that were looked into, what they tell, and the end of its window.
  @transient private var known: mutable.LinkedHashMap[(Boolean, Long), Stretch] = _
  @transient private var rows: mutable.ArrayBuffer[Row] = _
  @transient private var windowEnd: Long = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val (place, kept) = (Encoders.row(Stretches.Place), Encoders.row(sides.kept))
    state = getHandle.getMapState[Row, Row](MeetingRows.State, place, kept, TTLConfig.NONE)
    holds = condition.map(new Condition(_, sides))
  }

  override def handleInputRows(key: Row, input: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    begin(key)
    // A key that is not whole has no partner on the other side.
    val lonely = key.getInt(0) != 0
    input.map(sides.arrived).foreach { case (ofLeft, row) =>
      if (!lonely) meetOthers(key, row, ofLeft)
      if (!lonely || meeting.alone(ofLeft)) {
        val own = stretch(ofLeft, stretches.at(row.at))
        own.rows += row
        own.changed = true
      }
    }
    if (meeting.early) {
      for (own <- known.values if meeting.alone(own.ofLeft); row <- own.fresh if !row.met) tellAlone(key, row, own.ofLeft)
    }
    known.values.filter(_.changed).foreach(keep)
    rows.iterator
  }

  override def handleExpiredTimer(key: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    begin(key)
    val now = timers.getCurrentWatermarkInMs() * 1000
    for (ofLeft <- Seq(true, false); place <- stretches.due(timer.getExpiryTimeInMs(), meeting.reach(ofLeft))) {
      val due = stretch(ofLeft, place)
      if (due.rows.nonEmpty) {
        val (over, waiting) = due.rows.partition(lastTime(_, ofLeft) <= now)
        if (meeting.alone(ofLeft)) over.filterNot(row => row.met || row.told).foreach(tellAlone(key, _, ofLeft))
        due.rows = waiting
        due.timer = None
        keep(due)
      }
    }
    rows.iterator
  }

  private def begin(key: Row): Unit = {
    known = mutable.LinkedHashMap.empty
    rows = mutable.ArrayBuffer.empty
    if (meeting.windowed) windowEnd = instantToMicros(key.getStruct(key.length - 1).getInstant(1))
  }

  /** The rows of a side in a stretch, read when they are first asked for. */
  private def stretch(ofLeft: Boolean, place: Long): Stretch = known.getOrElseUpdate((ofLeft, place), {
    val waiting = sides.waitingOf(ofLeft, state.getValue(stretches.key(ofLeft, place)))
    val found = new Stretch(ofLeft, place, waiting)
    found.timer = next(found)
    found
  })

  /**
   * Write the rows of a stretch, and see to it that a timer stands for them: at the time that the first of them asks for
   * or before. Timers are never deleted, for one may stand for several stretches; one too many finds nothing to do.
   */
  private def keep(changed: Stretch): Unit = {
    // Where only the first partner counts, a row that has one waits for nothing.
    if (!meeting.pairs && changed.ofLeft) changed.rows.filterInPlace(!_.met)
    val due = next(changed)
    due.filter(at => changed.timer.forall(at < _)).foreach(getHandle.registerTimer)
    val place = stretches.key(changed.ofLeft, changed.place)
    if (due.nonEmpty) state.updateValue(place, sides.stored(changed.ofLeft, changed.rows))
    else if (changed.stored) state.removeKey(place)
  }

  /** When a stretch must be looked at: a row comes without partner, or the last of its rows has waited long enough. */
  private def next(of: Stretch): Option[Long] = {
    val end = if (meeting.windowed) windowEnd else stretches.last(of.place) + meeting.reach(of.ofLeft)
    val asks = meeting.alone(of.ofLeft) && !meeting.windowed
    val asking: Iterable[Waiting] = if (asks) of.rows.view.filterNot(row => row.met || row.told) else Nil
    Option.when(of.rows.nonEmpty)(asking.map(lastTime(_, of.ofLeft)).foldLeft(end)(math.min)).map(Timers.expiry)
  }

  private def meetOthers(key: Row, row: Waiting, ofLeft: Boolean): Unit = {
    val (first, last) = meeting.partners(row.at, ofLeft)
    for (place <- stretches.at(first) to stretches.at(last)) {
      val others = stretch(!ofLeft, place)
      others.rows.foreach { other =>
        val (left, right) = if (ofLeft) (row, other) else (other, row)
        if ((meeting.windowed || first <= other.at && other.at <= last) && holds.forall(_(left, right))) {
          if (!other.met && !meeting.forgets(!ofLeft)) others.changed = true
          meet(key, left, right)
        }
      }
    }
  }

  private def meet(key: Row, left: Waiting, right: Waiting): Unit = {
    if (left.told && !left.met) rows += sides.told(key, left.row, null, retracted = true)
    if (right.told && !right.met) rows += sides.told(key, null, right.row, retracted = true)
    if (meeting.pairs) rows += sides.told(key, left.row, right.row)
    else if (meeting.found && !left.met) rows += sides.told(key, left.row, null)
    left.met = true
    right.met = true
  }

  private def tellAlone(key: Row, row: Waiting, ofLeft: Boolean): Unit = {
    rows += (if (ofLeft) sides.told(key, row.row, null) else sides.told(key, null, row.row))
    row.told = true
  }

  /** The watermark behind which no partner of a row can come. */
  private def lastTime(row: Waiting, ofLeft: Boolean): Long =
    if (meeting.windowed) windowEnd else row.at + meeting.reach(ofLeft)
}

object MeetingRows {
  val State = "join"

  /** The join of the sides in `united`; `condition` is a column over them, or null. */
  def apply(united: DataFrame, meeting: Meeting, condition: DataFrame): DataFrame = {
    val expression = Option(condition).map(Sides.condition)
    Sides.processed(united)(new MeetingRows(_, meeting, expression))
  }
}
