package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.DateTimeUtils.instantToMicros
import org.apache.spark.sql.streaming._

/**
 * The output of a join: `pairs`, matched left rows once (`found`), and unmatched rows of either side.
 *
 * A right row is at most `before` earlier than its partner and at most `after` later, in microseconds; with `windowed`
 * the last key is a window, in which all rows match. With `early` an unmatched row is emitted in the batch of its
 * arrival, and retracted when it is matched.
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

  /** Whether unmatched rows of a side are emitted. */
  def alone(ofLeft: Boolean): Boolean = if (ofLeft) leftAlone else rightAlone

  /** Whether a matched row of a side waits on like an unmatched one, so that state need not tell them apart. */
  def forgets(ofLeft: Boolean): Boolean = !alone(ofLeft) && (pairs || !ofLeft)

  /** How much later than a row of a side its last partner may be. */
  def reach(ofLeft: Boolean): Long = if (ofLeft) after else before

  /** The first and last time of possible partners of a row of a side. */
  def partners(at: Long, ofLeft: Boolean): (Long, Long) = (at - reach(!ofLeft), at + reach(ofLeft))
}

/**
 * Joins by interval or by window. The state `join` has the rows of a key that may still match others, grouped by side
 * and time bucket: a batch reads and writes only the buckets that its rows are in or reach.
 */
class MeetingRows(sides: Sides, meeting: Meeting, condition: Option[Expression])
    extends StatefulProcessor[Row, Row, Row] {
  private val stretches = if (meeting.windowed) Stretches.One else Stretches.of(meeting.before + meeting.after)
  @transient private var state: MapState[Row, Row] = _
  @transient private var holds: Option[Condition] = _

  // Of the current key: the buckets that were read, the rows to emit, and the end of its window.
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
    // A key with a null has no partner on the other side.
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

  /** The rows of a side in a bucket, read on first use. */
  private def stretch(ofLeft: Boolean, place: Long): Stretch = known.getOrElseUpdate((ofLeft, place), {
    val waiting = sides.waitingOf(ofLeft, state.getValue(stretches.key(ofLeft, place)))
    val found = new Stretch(ofLeft, place, waiting)
    found.timer = next(found)
    found
  })

  /**
   * Store the rows of a bucket, and make sure that a timer fires at or before the time that the first of them needs.
   * Timers are never deleted, as one may serve several buckets; a superfluous timer does nothing.
   */
  private def keep(changed: Stretch): Unit = {
    // Where only the first partner counts, a matched row waits for nothing.
    if (!meeting.pairs && changed.ofLeft) changed.rows.filterInPlace(!_.met)
    val due = next(changed)
    due.filter(at => changed.timer.forall(at < _)).foreach(getHandle.registerTimer)
    val place = stretches.key(changed.ofLeft, changed.place)
    if (due.nonEmpty) state.updateValue(place, sides.stored(changed.ofLeft, changed.rows))
    else if (changed.stored) state.removeKey(place)
  }

  /** When a bucket must be checked: an unmatched row is emitted, or the last of its rows expires. */
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

  /** The watermark after which no partner of a row can arrive. */
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
