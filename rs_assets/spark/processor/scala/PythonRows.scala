package org.apache.spark.sql.rsassets

import java.nio.ByteBuffer
import java.time.Instant

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** The types of a row's key, of the row, of its order, of a key's state and of the rows that Python makes. */
case class PythonTypes(key: StructType, row: StructType, order: StructType, state: StructType, made: StructType) {
  val input: StructType = new StructType().add("key", key).add("row", row).add("at", order)
  val sent: StructType = new StructType().add("key", key).add("state", state).add("rows", ArrayType(row))
}

/**
 * The rows that a Python function makes of the rows and the state of each key.
 *
 * A group is a bucket of keys. The state `process` has a row for each key that has a state. A worker gets the touched
 * keys, each with its state and its rows, and answers with new states and rows; the state is written here, so a worker
 * may die or be asked again at any time. With `timed` a state has timers, at which its key is touched without rows.
 */
class PythonRows(code: PythonCode, types: PythonTypes, timed: Boolean) extends StatefulProcessor[Row, Row, Row] {
  @transient private var states: MapState[Row, Row] = _
  @transient private var wakes: PythonWakes = _
  @transient private lazy val asking = new PythonTask(code, types)
  @transient private lazy val toInput = CatalystTypeConverters.createToCatalystConverter(types.input)
  @transient private lazy val toKey = CatalystTypeConverters.createToCatalystConverter(types.key)
  @transient private lazy val toState = CatalystTypeConverters.createToCatalystConverter(types.state)
  @transient private lazy val fromState = CatalystTypeConverters.createToScalaConverter(types.state)
  @transient private lazy val fromMade = CatalystTypeConverters.createToScalaConverter(types.made)
  @transient private lazy val byKey = PythonRows.ordering(types, Seq(0))
  @transient private lazy val byAll = PythonRows.ordering(types, Seq(0, 2, 1))

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val kept = if (timed) types.state.add(PythonWakes.Wake, TimestampType) else types.state
    states = getHandle.getMapState[Row, Row](
      PythonRows.State, Encoders.row(Aggregation.stored(types.key)), Encoders.row(Aggregation.stored(kept)),
      TTLConfig.NONE)
    if (timed) wakes = new PythonWakes(getHandle, Aggregation.stored(types.key), types.state.size - 1)
  }

  override def handleInputRows(bucket: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val inputs = rows.map(row => new PythonInput(row.getStruct(0), toInput(row).asInstanceOf[InternalRow])).toArray
    java.util.Arrays.sort(inputs, (one: PythonInput, other: PythonInput) => byAll.compare(one.row, other.row))
    val keys = mutable.ArrayBuffer.empty[PythonKey]
    inputs.foreach { input =>
      if (keys.isEmpty || byKey.compare(keys.last.first, input.row) != 0) keys += new PythonKey(input.key, input.row)
      keys.last.rows += input.row.getStruct(1, types.row.size)
    }
    answered(keys.toSeq, timers)
  }

  /** Touch the keys of a bucket that have a timer which the watermark has reached. */
  override def handleExpiredTimer(bucket: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val now = timers.getCurrentWatermarkInMs()
    val (due, early) = wakes.taken(bucket, now).map(key => key -> states.getValue(key))
      .filter { case (_, kept) => kept != null && wakes.wakes(kept, now) }
      .partition { case (_, kept) => wakes.due(kept, now) }
    early.foreach { case (key, kept) => keep(key, kept, parted(kept), now) }
    answered(due.map { case (key, _) => new PythonKey(key, InternalRow(toKey(key))) }, timers)
  }

  /** The rows that Python makes of keys, which it gets in parts. */
  private def answered(keys: Seq[PythonKey], timers: TimerValues): Iterator[Row] = {
    val now = if (timed) timers.getCurrentWatermarkInMs() else PythonWakes.Never
    val made = mutable.ArrayBuffer.empty[Row]
    val ends = keys.scanLeft(0)(_ + _.rows.size)
    keys.indices.groupBy(at => (ends(at) + at) / PythonRows.FrameRows).toSeq.sortBy(_._1)
      .foreach { case (_, part) => answer(part.map(keys), now, made) }
    if (timed) wakes.register()
    made.iterator
  }

  private def answer(keys: Seq[PythonKey], now: Long, made: mutable.ArrayBuffer[Row]): Unit = {
    val kept = keys.map(key => states.getValue(key.key))
    val before = kept.map(parted)
    val sent = keys.iterator.zip(before.iterator).map { case (key, state) =>
      val rows = new GenericArrayData(key.rows.toArray[Any])
      InternalRow(key.first.getStruct(0, types.key.size), if (state == null) null else toState(state), rows)
    }
    val after = new Array[Row](keys.size)
    asking.ask(sent, now)(
      state => after(state.getInt(0)) = fromState(state.getStruct(1, types.state.size)).asInstanceOf[Row],
      row => made += fromMade(row).asInstanceOf[Row])
    for (place <- keys.indices) stored(keys(place).key, kept(place), before(place), after(place), now)
  }

  private def stored(key: Row, kept: Row, was: Row, is: Row, now: Long): Unit =
    if (is == null) { if (was != null) states.removeKey(key) }
    else if (was == null || !Changes.same(was, is) || (timed && wakes.moves(kept, is, now))) keep(key, kept, is, now)

  /** Store a state, and when to look at its timers. */
  private def keep(key: Row, kept: Row, state: Row, now: Long): Unit =
    states.updateValue(key,
      if (timed) Row.fromSeq(state.toSeq :+ wakes.noted(key, kept, state, now).map(Instant.ofEpochMilli).orNull)
      else state)

  /** The state as Python knows it. */
  private def parted(kept: Row): Row = if (kept == null || !timed) kept else Row.fromSeq(kept.toSeq.init)
}

/** A row in both forms: its key as state wants it, and key, row and order. */
class PythonInput(val key: Row, val row: InternalRow)

/** A key with its rows; `first` begins with the key. */
class PythonKey(val key: Row, val first: InternalRow) {
  val rows = mutable.ArrayBuffer.empty[InternalRow]
}

/** What the worker of a task makes of keys with their states and rows. */
class PythonTask(code: PythonCode, types: PythonTypes) {
  private val frames = new ArrowFrames(types.sent)
  TaskContext.get().addTaskCompletionListener[Unit](_ => frames.close())
  private val worker = new TaskWorker(code)

  /** The answer to `sent` at the watermark `now`, as rows with place and state, and rows of the result. */
  def ask(sent: Iterator[InternalRow], now: Long)(onState: InternalRow => Unit, onRow: InternalRow => Unit): Unit = {
    val answer = worker.answer(frames.written(sent), now)
    val length = ByteBuffer.wrap(answer).getInt()
    frames.read(answer, 4, length)(onState)
    frames.read(answer, 4 + length, answer.length - 4 - length)(onRow)
  }
}

object PythonRows {
  val State = "process"
  /** How many rows a worker gets at once, but for a key that has more. */
  val FrameRows = 10000

  /** The rows that `code` makes of `frame`: row and order; then the keys. */
  def apply(
      frame: DataFrame, code: PythonCode, state: String, made: String, buckets: Int, timed: Boolean): DataFrame = {
    val rows = FiringWindows.normal(FiringWindows.analyzed(frame), 2)
    val (inputs, keys) = rows.output.splitAt(2)
    val key = Alias(CreateStruct(keys), "key")()
    val bucket = Alias(Pmod(new Murmur3Hash(keys), Literal(buckets)), "bucket")()
    val packed = Project(Seq(key) ++ inputs ++ Seq(bucket), rows)
    val Seq(row, order) = inputs.map(_.dataType.asInstanceOf[StructType])
    val (kept, told) = (struct(state), struct(made))
    val types = PythonTypes(DataTypeUtils.fromAttributes(keys), row, order, kept, told)
    val (input, grouped) = packed.output.splitAt(3)
    val time = if (timed) TimeMode.EventTime() else TimeMode.None()
    FiringWindows.processed(frame.sparkSession, packed, input, grouped, time)(
      new PythonRows(code, types, timed), told)
  }

  private def struct(json: String): StructType = DataType.fromJson(json).asInstanceOf[StructType]

  /** The order by the fields of some of the columns of an input. */
  private def ordering(types: PythonTypes, columns: Seq[Int]): Ordering[InternalRow] = {
    val fields = columns.flatMap { column =>
      val of = types.input(column).dataType.asInstanceOf[StructType]
      of.indices.map(GetStructField(BoundReference(column, of, nullable = true), _))
    }
    RowOrdering.create(
      fields.filter(field => RowOrdering.isOrderable(field.dataType)).map(SortOrder(_, Ascending)), Nil)
  }
}
