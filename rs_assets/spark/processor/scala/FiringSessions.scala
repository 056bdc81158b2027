package org.apache.spark.sql.rsassets

import java.time.Instant

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{instantToMicros, microsToInstant}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * A session from `start` to `end`, in microseconds, with the buffers of its aggregates.
 *
 * `since` is the clock time of its first change that was not yet emitted; `told` are the emitted rows to retract with
 * the next emission. Without `since` the buffers give the row that was emitted last.
 */
private class Session(
    var start: Long,
    var end: Long,
    var buffers: Row,
    var since: Option[Long],
    var told: Seq[Row]) {

  // What this batch has emitted for its `start`: the places of these rows, and the last of them.
  var emitted: mutable.ArrayBuffer[Int] = mutable.ArrayBuffer.empty
  var newest: Row = _

  def meets(first: Long, last: Long): Boolean = start <= last && first <= end

  /** In milliseconds, like the clock. */
  def from: Long = Math.floorDiv(start, 1000L)
  def until: Long = Timers.expiry(end)
}

/**
 * Sessions that fire by `firing`. Before a session emits an updated row it retracts the previous one.
 *
 * The sessions of a group are one row of the state `sessions`, with one timer for the first that fires. Due sessions
 * fire before rows are added, so that a session that is over never continues.
 */
class FiringSessions(aggregation: Aggregation, firing: Firing) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var toGroup: Any => Any = _

  // Of the current group: its key, its sessions, the one that is loaded in the buffer, and the rows to emit.
  @transient private var group: InternalRow = _
  @transient private var sessions: Seq[Session] = _
  @transient private var loaded: Session = _
  @transient private var rows: mutable.ArrayBuffer[Row] = _
  @transient private var outdated: mutable.BitSet = _
  private val groupType = DataTypeUtils.fromAttributes(aggregation.keys.tail)

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val kept = new StructType().add(FiringSessions.State, ArrayType(FiringSessions.kept(aggregation)))
    state = getHandle.getValueState[Row](FiringSessions.State, Encoders.row(kept), TTLConfig.NONE)
    buffer = new Buffer(aggregation)
    toGroup = CatalystTypeConverters.createToCatalystConverter(groupType)
  }

  override def handleInputRows(key: Row, input: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val due = begin(key)
    val now = clock(timers)
    fire(now)
    input.foreach { row =>
      val session = joined(row.getStruct(row.length - 1), now)
      buffer.add(row)
      if (firing.updates == 2) tell(session, null, last = false)
    }
    if (firing.updates == 1) sessions.filter(_.since.nonEmpty).foreach(tell(_, null, last = false))
    end(due)
  }

  override def handleExpiredTimer(key: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    begin(key)
    fire(clock(timers))
    end(None)
  }

  /** Load a group; returns when the next of its sessions was to fire. */
  private def begin(key: Row): Option[Long] = {
    group = toGroup(key).asInstanceOf[InternalRow]
    loaded = null
    rows = mutable.ArrayBuffer.empty
    outdated = mutable.BitSet.empty
    sessions = Option(state.get()).fold(Seq.empty[Row])(_.getSeq[Row](0)).map(FiringSessions.of)
    sessions.map(due).minOption
  }

  /** Store the sessions, with one timer; the previous timer is at `before`. */
  private def end(before: Option[Long]): Iterator[Row] = {
    unload()
    val next = sessions.map(due).minOption
    Timers.move(getHandle, before.map(expiry), next.map(expiry))
    if (sessions.isEmpty) state.clear()
    else state.update(Row(sessions.sortBy(_.start).map(s => FiringSessions.row(s, Instant.ofEpochMilli(due(s))))))
    if (outdated.isEmpty) rows.iterator
    else rows.iterator.zipWithIndex.collect { case (row, place) if !outdated(place) => row }
  }

  /** The session, in the buffer, for a row with its own session; all sessions that overlap are merged into it. */
  private def joined(own: Row, now: Long): Session = {
    val (first, last) = (instantToMicros(own.getInstant(0)), instantToMicros(own.getInstant(1)))
    val (met, apart) = sessions.partition(_.meets(first, last))
    met.filter(_.since.isEmpty).foreach { session =>
      session.told = Seq(Option(session.newest).getOrElse(evaluated(session)))
      session.since = Some(now)
    }
    val session = met.headOption.getOrElse(new Session(first, last, null, Some(now), Nil))
    load(session)
    met.drop(1).foreach(other => buffer.merge(other.buffers))
    val start = math.min(first, met.map(_.start).minOption.getOrElse(first))
    met.filter(_.start != start).foreach(forget)
    met.drop(1).find(_.start == start).foreach { same =>
      session.emitted = same.emitted
      session.newest = same.newest
    }
    session.start = start
    session.end = math.max(last, met.map(_.end).maxOption.getOrElse(last))
    session.since = met.flatMap(_.since).minOption.orElse(session.since)
    session.told = met.sortBy(_.start).flatMap(_.told)
    sessions = apart :+ session
    session
  }

  /**
   * Take back what this batch has emitted for the start of a session that begins earlier now, or in another one.
   *
   * Nobody has seen these rows. A row and its retraction in one batch would leave the row in an upsert, which takes a
   * retraction for the older of two.
   */
  private def forget(session: Session): Unit = {
    outdated ++= session.emitted
    session.told = session.told.filterNot(_ eq session.newest)
    session.emitted = mutable.ArrayBuffer.empty
    session.newest = null
  }

  private def fire(now: Long): Unit = sessions.filter(due(_) <= now).foreach { session =>
    val close = firing.close(session.until)
    val closes = close <= now
    val at = Instant.ofEpochMilli(if (closes) close else due(session))
    if (firing.finals || !closes) tell(session, at, closes)
    if (closes) {
      sessions = sessions.filterNot(_ eq session)
      if (loaded eq session) loaded = null
    }
  }

  /** Retract the rows that the session has emitted, and emit its current row. */
  private def tell(session: Session, at: Instant, last: Boolean): Unit = {
    val row = evaluated(session)
    val before = if (session.since.isEmpty) Seq(row) else session.told
    before.foreach { told =>
      if (told eq session.newest) session.emitted += rows.size
      rows += Row.fromSeq(told.toSeq ++ Seq(at, false, true))
    }
    session.emitted += rows.size
    session.newest = row
    rows += Row.fromSeq(row.toSeq ++ Seq(at, last, false))
    session.since = None
    session.told = Nil
  }

  /** When a session fires next. */
  private def due(session: Session): Long =
    session.since.fold(firing.close(session.until))(firing.next(session.from, session.until, _))

  private def evaluated(session: Session): Row = {
    load(session)
    val place = InternalRow(session.start, session.end)
    Row.fromSeq(buffer.evaluated(InternalRow.fromSeq(place +: group.toSeq(groupType))))
  }

  private def load(session: Session): Unit = if (session ne loaded) {
    unload()
    buffer.load(session.buffers)
    loaded = session
  }

  private def unload(): Unit = if (loaded != null) {
    loaded.buffers = Row.fromSeq(buffer.stored())
    loaded = null
  }

  /** As in FiringWindows. */
  private def clock(timers: TimerValues): Long = timers.getCurrentWatermarkInMs() + firing.delay
  private def expiry(at: Long): Long = at - firing.delay
}

object FiringSessions {
  val State = "sessions"
  private val Own = Seq("start", "end", "fire_at", "since", "told")

  /** The schema of a session in state: the buffers of its aggregates, and its other fields. */
  def kept(aggregation: Aggregation): StructType = {
    val told = StructType(aggregation.resultType.foldLeft(Seq.empty[StructField]) { (before, field) =>
      before :+ StructField(Aggregation.stored(field.name, before.map(_.name)), Aggregation.storedType(field.dataType))
    })
    val kinds = Seq(TimestampType, TimestampType, TimestampType, TimestampType, ArrayType(told))
    StructType(aggregation.stored(Own) ++ Own.zip(kinds).map { case (name, kind) => StructField(name, kind) })
  }

  private def of(row: Row): Session = {
    val own = row.length - Own.size
    def micros(field: Int): Long = instantToMicros(row.getInstant(own + field))
    val since = Option.when(!row.isNullAt(own + 3))(micros(3) / 1000)
    new Session(micros(0), micros(1), Row.fromSeq(row.toSeq.take(own)), since, row.getSeq[Row](own + 4))
  }

  private def row(session: Session, fireAt: Instant): Row = {
    val since = session.since.map(Instant.ofEpochMilli).orNull
    val place = Seq(microsToInstant(session.start), microsToInstant(session.end))
    Row.fromSeq(session.buffers.toSeq ++ place ++ Seq(fireAt, since, session.told))
  }

  /**
   * The rows of `sessions`, an aggregation whose first key is a session, as `firing` defines: its columns, the time of
   * the firing (null for an update), whether the session closed with it, and whether the row retracts an earlier one.
   */
  def apply(sessions: DataFrame, firing: Firing): DataFrame = {
    val (whole, rows) = Aggregation.of(FiringWindows.analyzed(sessions))
    val aggregation = whole.copy(inputs = whole.inputs :+ whole.keys.head)
    FiringWindows.processed(sessions.sparkSession, rows, aggregation.inputs, aggregation.keys.tail)(
      new FiringSessions(aggregation, firing),
      FiringWindows.told(aggregation).add("_rs_retracted", BooleanType))
  }
}
