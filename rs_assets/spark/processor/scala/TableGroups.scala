package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Alias, Ascending, Attribute, InterpretedOrdering, RowOrdering, SortOrder}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** What both forms of a group share: its emitted columns, of which the last is the number of its rows. */
abstract class TableGroups(aggregation: Aggregation) extends StatefulProcessor[Row, Row, Row] {
  @transient protected var buffer: Buffer = _
  @transient private var toKey: Any => Any = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    buffer = new Buffer(aggregation)
    toKey = CatalystTypeConverters.createToCatalystConverter(aggregation.keyType)
  }

  /** The emitted columns for the content of the buffer; None if the group has no rows. */
  protected def evaluated(group: Row): Option[Row] = {
    val columns = buffer.evaluated(toKey(group).asInstanceOf[InternalRow])
    val rows = columns.last.asInstanceOf[Long]
    require(rows >= 0, s"a group of a table lost a row that it never had: $group")
    Option.when(rows > 0)(Row.fromSeq(columns))
  }

  /** What is emitted; nothing if only the number of rows has changed, which is not shown. */
  protected def told(before: Option[Row], now: Option[Row]): Iterator[Row] =
    if (before.isDefined && now.isDefined && Changes.same(before.get.toSeq.init, now.get.toSeq.init)) Iterator.empty
    else TableFrames.changes(before, now).map { case (row, retracted) => Row.fromSeq(row.toSeq :+ retracted) }.iterator
}

/** Aggregates to which a row that goes is added with the opposite sign. The state `group` has their buffers. */
class SignedGroups(aggregation: Aggregation) extends TableGroups(aggregation) {
  @transient private var state: ValueState[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    super.init(outputMode, timeMode)
    state = getHandle.getValueState[Row](
      TableGroups.State, Encoders.row(StructType(aggregation.stored(Nil))), TTLConfig.NONE)
  }

  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    buffer.load(state.get())
    val before = evaluated(group)
    rows.foreach(buffer.add)
    val now = evaluated(group)
    if (now.isEmpty) state.clear() else state.update(Row.fromSeq(buffer.stored()))
    told(before, now)
  }
}

/**
 * Any aggregates: the state `group_rows` has the inputs of a group's rows and how often each is there, from which each
 * batch that changes them computes anew. The state `group` has the emitted columns.
 */
class KeptGroups(aggregation: Aggregation) extends TableGroups(aggregation) {
  @transient private var state: ValueState[Row] = _
  @transient private var kept: MapState[Row, Long] = _
  @transient private var order: Ordering[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    super.init(outputMode, timeMode)
    val inputs = Aggregation.stored(aggregation.inputType)
    val results = Encoders.row(Aggregation.stored(aggregation.resultType))
    state = getHandle.getValueState[Row](TableGroups.State, results, TTLConfig.NONE)
    kept = getHandle.getMapState[Row, Long](TableGroups.Rows, Encoders.row(inputs), Encoders.scalaLong, TTLConfig.NONE)
    val rows = new InterpretedOrdering(
      aggregation.inputs.filter(in => RowOrdering.isOrderable(in.dataType)).map(SortOrder(_, Ascending)), aggregation.inputs)
    val toRow = CatalystTypeConverters.createToCatalystConverter(aggregation.inputType)
    order = (one, other) => rows.compare(toRow(one).asInstanceOf[InternalRow], toRow(other).asInstanceOf[InternalRow])
  }

  /** `rows` are the inputs, with the sign as a last field. */
  override def handleInputRows(group: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val before = Option(state.get())
    val changed = rows.toSeq.groupMapReduce(row => Row.fromSeq(row.toSeq.init))(_.getLong(aggregation.inputs.size))(_ + _)
    // Rows that come first: bytes are not equal here, so both halves of one may be apart.
    changed.toSeq.sortBy(-_._2).foreach { case (row, change) =>
      val count = (if (kept.containsKey(row)) kept.getValue(row) else 0L) + change
      require(count >= 0, s"a group of a table lost a row that it never had: $group")
      if (count == 0) kept.removeKey(row) else kept.updateValue(row, count)
    }
    buffer.load(null)
    kept.iterator().toSeq.sortBy(_._1)(order).foreach { case (row, count) =>
      (0L until count).foreach(_ => buffer.add(row))
    }
    val now = evaluated(group)
    if (now.isEmpty) state.clear() else state.update(now.get)
    told(before, now)
  }
}

object TableGroups {
  val State = "group"
  val Rows = "group_rows"

  /** The changes of `groups`, an aggregation whose last result is the number of rows, over inputs that have a sign. */
  def signed(groups: DataFrame): DataFrame = {
    val (aggregation, rows) = Aggregation.of(FiringWindows.analyzed(groups))
    FiringWindows.processed(groups.sparkSession, rows, aggregation.inputs, aggregation.keys, TimeMode.None())(
      new SignedGroups(aggregation), told(aggregation))
  }

  /** The same for any aggregation, over rows whose sign is the input of its first result, which is left out. */
  def kept(groups: DataFrame, sign: String): DataFrame = {
    val (whole, rows) = Aggregation.of(FiringWindows.analyzed(groups))
    val signed = whole.functions.find(_.name == sign).get
    val at = signed.of.children.head.asInstanceOf[Attribute]
    val aggregation = whole.copy(
      inputs = whole.inputs.filterNot(_.exprId == at.exprId),
      functions = whole.functions.filterNot(_ eq signed),
      results = whole.results.filterNot(_.name == sign))
    FiringWindows.processed(
      groups.sparkSession, normal(rows), aggregation.inputs :+ at, aggregation.keys, TimeMode.None())(
      new KeptGroups(aggregation), told(aggregation))
  }

  /** The same rows with one zero and one NaN: kept rows are found by their bytes, while 0.0 and -0.0 are no change. */
  private def normal(rows: LogicalPlan): LogicalPlan = rows match {
    case Project(columns, child) => Project(columns.map {
      case input: Alias => input.withNewChildren(Seq(NormalizeFloatingNumbers.normalize(input.child))).asInstanceOf[Alias]
      case other => other
    }, child)
  }

  private def told(aggregation: Aggregation): StructType = aggregation.resultType.add("_rs_retracted", BooleanType)
}
