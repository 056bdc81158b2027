package org.apache.spark.sql.rsassets

import java.time.Instant

import scala.collection.mutable

import org.apache.spark.sql
import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset, KeyValueGroupedDataset, SparkSession}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Windows that fire by `firing`.
 *
 * Each window of a group is a row of the state `window`: the buffers of its aggregates and `fire_at`, the time of its
 * next firing, which has a timer. Each window has its own key, so a batch reads and writes only the state rows of the
 * windows that it touches.
 */
class FiringWindows(aggregation: Aggregation, firing: Firing) extends StatefulProcessor[Row, Row, Row] {
  @transient private var windows: ValueState[Row] = _
  @transient private var buffer: Buffer = _
  @transient private var toKey: Any => Any = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val state = StructType(aggregation.stored(Seq(FiringWindows.FireAt))).add(FiringWindows.FireAt, TimestampType)
    windows = getHandle.getValueState[Row](FiringWindows.State, Encoders.row(state), TTLConfig.NONE)
    buffer = new Buffer(aggregation)
    toKey = CatalystTypeConverters.createToCatalystConverter(aggregation.keyType)
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val key = toKey(group).asInstanceOf[InternalRow]
    val window = windows.get()
    val told = mutable.ArrayBuffer.empty[Row]
    buffer.load(window)
    // What is reached stays reached, so the rest of the window does not matter.
    if (firing.updates == 3 && holds(key)) return Iterator.empty
    rows.foreach { row =>
      buffer.add(row)
      if (firing.updates == 2) told += fired(key, null, last = false)
    }
    if (firing.updates == 1 || (firing.updates == 3 && holds(key))) told += fired(key, null, last = false)
    schedule(Option(window).map(fireAt), firing.next(start(key), end(key), clock(timers)))
    told.iterator
  }

  override def handleExpiredTimer(group: Row, timers: TimerValues, timer: ExpiredTimerInfo): Iterator[Row] = {
    val key = toKey(group).asInstanceOf[InternalRow]
    val window = windows.get()
    val close = firing.close(end(key))
    val closes = close <= clock(timers)
    buffer.load(window)
    val at = if (closes && !firing.deltas) close else fireAt(window)
    val told = Option.when(firing.finals || !closes)(fired(key, Instant.ofEpochMilli(at), closes))
    if (closes || firing.deltas) windows.clear() else schedule(None, close)
    told.iterator
  }

  /** Store the window, with one timer: for `due` or for the previous time `before`, whichever is earlier. */
  private def schedule(before: Option[Long], due: Long): Unit = {
    val at = before.fold(due)(math.min(_, due))
    Timers.move(getHandle, before.map(expiry), Some(expiry(at)))
    windows.update(Row.fromSeq(buffer.stored() :+ Instant.ofEpochMilli(at)))
  }

  private def fired(key: InternalRow, at: Instant, last: Boolean): Row =
    Row.fromSeq(buffer.evaluated(key) ++ Seq(at, last))

  /** Whether the last column is true. */
  private def holds(key: InternalRow): Boolean = buffer.evaluated(key).last == true

  /** The greatest event time seen when the batch began: Spark's watermark lags it by `delay`. */
  private def clock(timers: TimerValues): Long = timers.getCurrentWatermarkInMs() + firing.delay

  /** A timer expires when the watermark has reached it. */
  private def expiry(at: Long): Long = at - firing.delay

  private def fireAt(window: Row): Long = window.getInstant(window.length - 1).toEpochMilli
  private def start(key: InternalRow): Long = key.getStruct(0, 2).getLong(0) / 1000
  private def end(key: InternalRow): Long = key.getStruct(0, 2).getLong(1) / 1000
}

object FiringWindows {
  val State = "window"
  val FireAt = "fire_at"

  /**
   * The rows of `windows`, an aggregation whose first key is a window, by `firing` rather than when Spark closes
   * them: its columns, the time of the firing (null for an update) and whether the window has closed with it.
   */
  def apply(windows: DataFrame, firing: Firing): DataFrame = {
    val (aggregation, rows) = Aggregation.of(analyzed(windows))
    processed(windows.sparkSession, rows, aggregation.inputs, aggregation.keys)(
      new FiringWindows(aggregation, firing),
      told(aggregation))
  }

  private[rsassets] def analyzed(frame: DataFrame): LogicalPlan =
    frame.asInstanceOf[Dataset[Row]].queryExecution.analyzed

  /** The columns of an aggregation, and those of a firing. */
  private[rsassets] def told(aggregation: Aggregation): StructType =
    aggregation.resultType.add("_rs_fire_time", TimestampType).add("_rs_final", BooleanType)

  /** `rows` with keys, all columns after the first `inputs`, as in Spark's own joins: 0.0 equals -0.0, and all NaN. */
  private[rsassets] def normal(rows: LogicalPlan, inputs: Int): LogicalPlan = {
    val (input, keys) = rows.output.splitAt(inputs)
    Project(input ++ keys.map(key => NormalizeFloatingNumbers.normalize(key) match {
      case `key` => key
      case made => Alias(made, key.name)()
    }), rows)
  }

  /** The output of `processor` for the `inputs` of `rows`, grouped by their `keys`. */
  private[rsassets] def processed(
      session: sql.SparkSession,
      rows: LogicalPlan,
      inputs: Seq[Attribute],
      keys: Seq[Attribute],
      time: TimeMode = TimeMode.EventTime())(processor: StatefulProcessor[Row, Row, Row], made: StructType): DataFrame = {
    val own = session.asInstanceOf[SparkSession]
    val query = Dataset.ofRows(own, rows).queryExecution
    val (key, input) = (DataTypeUtils.fromAttributes(keys), DataTypeUtils.fromAttributes(inputs))
    // The encoders ask the thread's session for the time types that a processor sees.
    own.withActive {
      // Bound here: tasks get no function that could bind an array.
      new KeyValueGroupedDataset(ExpressionEncoder(key).resolveAndBind(), ExpressionEncoder(input), query, inputs, keys)
        .transformWithState(processor, time, OutputMode.Append())(Encoders.row(made))
        .toDF()
    }
  }
}
