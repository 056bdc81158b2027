package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * For each row an aggregation over itself and earlier rows of its group, emitted when the watermark, which lags the
 * greatest event time by `waits` milliseconds, has passed it. `Frame` selects these rows.
 *
 * The state `over` has the time of the first row, the rows `before` that later windows may contain, and the rows
 * `waiting` for the watermark. For windows that begin with the first row it has aggregate buffers instead of rows.
 */
class OverRows(aggregation: Aggregation, own: Attribute, frame: Frame, waits: Long)
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var inOrder: RowsInOrder = _
  @transient private var toOwn: Any => Any = _
  private val parts = if (frame.growing) aggregation.buffer.size else 0
  private val ownAt = aggregation.inputs.indexWhere(_.exprId == own.exprId)

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    inOrder = new RowsInOrder(aggregation)
    val stored = if (frame.growing) aggregation.stored(OverRows.Own) else Nil
    val kinds = Seq(TimestampType, ArrayType(inOrder.rowType), ArrayType(inOrder.rowType))
    val kept = StructType(stored ++ OverRows.Own.zip(kinds).map { case (name, kind) => StructField(name, kind) })
    state = getHandle.getValueState[Row](OverRows.State, Encoders.row(kept), TTLConfig.NONE)
    buffer = new Buffer(aggregation.copy(keys = aggregation.keys :+ own))
    toOwn = CatalystTypeConverters.createToCatalystConverter(own.dataType)
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val kept = Option(state.get())
    val sums = kept.fold(Seq.fill[Any](parts + 1)(null))(_.toSeq.take(parts + 1))
    keep(kept, Row.fromSeq(sums ++ Seq(kept.fold(Seq.empty[Row])(before), inOrder.sorted(kept.fold(Seq.empty[Row])(waiting) ++ rows))))
    Iterator.empty
  }

  override def handleExpiredTimer(group: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val now = timers.getCurrentWatermarkInMs()
    val kept = state.get()
    val (due, later) = waiting(kept).span(row => Timers.expiry(inOrder.micros(row)) <= now)
    var first = Option(kept.get(parts)).map(_ => inOrder.microsIn(kept, parts))
    var seen = before(kept)
    if (frame.growing) buffer.load(if (first.isEmpty) null else Row.fromSeq(kept.toSeq.take(parts)))
    val told = Seq.newBuilder[Row]
    frame.together(due, inOrder.micros).foreach { rows =>
      val at = inOrder.micros(rows.head)
      if (frame.growing) rows.foreach(buffer.add)
      else {
        seen = frame.window(seen ++ rows, at, inOrder.micros)
        buffer.load(null)
        seen.foreach(buffer.add)
      }
      first = Some(if (frame.growing) first.getOrElse(at) else inOrder.micros(seen.head))
      rows.foreach(told += row(group, first.get, at, _))
    }
    if (now + waits >= Timers.End) state.clear()
    else {
      val sums = if (frame.growing) buffer.stored() else Nil
      val rows = frame.needed(seen, now * 1000, inOrder.micros)
      keep(None, Row.fromSeq(sums ++ Seq(first.map(microsToInstant).orNull, rows, later)))
    }
    told.result().iterator
  }

  /** A row with the aggregates of the buffer. */
  private def row(group: Row, first: Long, at: Long, row: Row): Row = {
    val key = inOrder.key(group, first, at).toSeq(aggregation.keyType) :+ toOwn(row.get(ownAt))
    Row.fromSeq(buffer.evaluated(InternalRow.fromSeq(key)) ++ Seq(microsToInstant(at + waits * 1000), true))
  }

  /** Store the state, with one timer; the previous state `last` has a timer. */
  private def keep(last: Option[Row], kept: Row): Unit = {
    val gone = !frame.growing && waiting(kept).isEmpty && before(kept).isEmpty
    Timers.move(getHandle, last.map(next), Option.when(!gone)(next(kept)))
    if (gone) state.clear() else state.update(kept)
  }

  /** When the next row is emitted, rows expire, or the input ends, in milliseconds. */
  private def next(kept: Row): Long = {
    val end = Timers.End - waits
    val told = waiting(kept).headOption.map(inOrder.micros)
    told.orElse(before(kept).lastOption.flatMap(row => frame.until(inOrder.micros(row)))).fold(end)(at => math.min(Timers.expiry(at), end))
  }

  private def before(kept: Row): Seq[Row] = kept.getSeq[Row](parts + 1)
  private def waiting(kept: Row): Seq[Row] = kept.getSeq[Row](parts + 2)
}

/**
 * The rows in the window of a row: at most `count` rows before it, or rows of at most `within` microseconds before it;
 * all if both are below 0. `peers`: rows with equal times share one window, which contains all of them.
 */
case class Frame(count: Int, within: Long, peers: Boolean) {

  /** Whether windows only grow. */
  val growing: Boolean = count < 0 && within < 0

  /** `rows` in order, in groups that share one window. */
  def together(rows: Seq[Row], at: Row => Long): Iterator[Seq[Row]] =
    if (!peers) rows.iterator.map(Seq(_))
    else {
      val left = rows.iterator.buffered
      new Iterator[Seq[Row]] {
        override def hasNext: Boolean = left.hasNext
        override def next(): Seq[Row] = {
          val time = at(left.head)
          val same = Seq.newBuilder[Row]
          while (left.hasNext && at(left.head) == time) same += left.next()
          same.result()
        }
      }
    }

  /** Those of `rows` that are in the window of the last one, whose time is `time`. */
  def window(rows: Seq[Row], time: Long, at: Row => Long): Seq[Row] =
    if (count >= 0) rows.takeRight(count + 1) else rows.dropWhile(at(_) < time - within)

  /** Those of `rows` that may be in the window of a row after `now`. */
  def needed(rows: Seq[Row], now: Long, at: Row => Long): Seq[Row] =
    if (count >= 0) rows.takeRight(count) else if (growing) Nil else rows.dropWhile(at(_) <= now - within)

  /** When a row of the time `at` is no longer in any window that is still to be emitted. */
  def until(at: Long): Option[Long] = Option.when(within >= 0 && count < 0)(at + within)
}

object OverRows {
  val State = "over"
  private val Own = Seq("first", "before", "waiting")
  /** The column of `windows` that is the row itself. */
  private val RowColumn = "_rs_row"

  /** The rows of `windows`, an aggregation whose first key is the position of a row, each with its aggregates. */
  def apply(windows: DataFrame, count: Int, within: Long, peers: Boolean, waits: Long): DataFrame =
    RowsInOrder.processed(windows, aggregation => {
      val (others, own) = apart(aggregation)
      new OverRows(others, own, Frame(count, within, peers), waits)
    })

  /** `aggregation` with the input row in place of the function that represents it, and the input with that row. */
  private def apart(aggregation: Aggregation): (Aggregation, Attribute) = {
    val row = aggregation.functions.find(_.name == RowColumn).get
    val own = row.of.children.head.asInstanceOf[Attribute]
    val results = aggregation.results.map {
      case result if result.name == RowColumn => Alias(own, RowColumn)()
      case result => result
    }
    (aggregation.copy(functions = aggregation.functions.filterNot(_ eq row), results = results), own)
  }
}
