package org.apache.spark.sql.rsassets

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The input of a join of tables: a row of the left or of the right side (the other is null), and whether it goes.
 *
 * `blanks` has for each side the row that is shown as a missing one is; null for a side whose rows always differ from it.
 */
case class TableSides(left: StructType, right: StructType, blanks: Seq[Row]) {

  /** The columns of an emitted row: the keys, both rows, and whether they go. */
  def made(keys: Seq[StructField]): StructType =
    StructType(keys).add("left", left).add("right", right).add("_rs_retracted", BooleanType)

  /** The rows of a key after `input`, of which they were `before`: a row that comes stands, else one that goes is gone. */
  def after(before: Option[Row], input: Iterable[Row], side: Int): Option[Row] = {
    val own = input.filter(!_.isNullAt(side))
    own.find(!_.getBoolean(2)).map(_.getStruct(side)).orElse(if (own.isEmpty) before else None)
  }

  /** What is emitted for a pair that was `before` and is `now`. */
  def told(key: Row, before: Option[Row], now: Option[Row]): Seq[Row] =
    if (before.isDefined && now.isDefined && Changes.same(shown(before.get), shown(now.get))) Nil
    else TableFrames.changes(before, now).map { case (pair, retracted) => Row.fromSeq(key.toSeq ++ pair.toSeq :+ retracted) }

  /** What is emitted for a row of a side that has no partner, of which the batch has what goes and what comes. */
  def alone(key: Row, changed: Iterable[Row], side: Int): Seq[Row] = {
    val Seq(gone, come) = Seq(true, false).map(goes => changed.find(_.getBoolean(2) == goes).map(_.getStruct(side)))
    told(key, gone.map(single(_, side)), come.map(single(_, side)))
  }

  /** The pair of a row of a side and of none. */
  def single(row: Row, side: Int): Row = if (side == 0) Row(row, null) else Row(null, row)

  private def shown(pair: Row): Seq[Row] = Seq(0, 1).map(side => Option(pair.getStruct(side)).getOrElse(blanks(side)))
}

object TableSides {
  type ByKey = mutable.LinkedHashMap[Row, mutable.ArrayBuffer[Row]]

  /** Rows by the key that they have in a column, in the order in which the keys come. */
  def byKey(rows: Iterable[Row], column: Int): ByKey = {
    val found = mutable.LinkedHashMap.empty[Row, mutable.ArrayBuffer[Row]]
    rows.foreach(row => found.getOrElseUpdate(row.getStruct(column), mutable.ArrayBuffer.empty) += row)
    found
  }
}

/** Joins the rows of two tables with equal keys. The state `table_join` has both rows. */
class TableJoins(sides: TableSides, leftAlone: Boolean, rightAlone: Boolean) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val kept = new StructType().add("left", Aggregation.stored(sides.left)).add("right", Aggregation.stored(sides.right))
    state = getHandle.getValueState[Row](TableJoins.State, Encoders.row(kept), TTLConfig.NONE)
  }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (before, input) = (Option(state.get()), rows.toSeq)
    val was = Seq(0, 1).map(side => before.flatMap(row => Option(row.getStruct(side))))
    val is = Seq(0, 1).map(side => sides.after(was(side), input, side))
    if (is.forall(_.isEmpty)) state.clear() else state.update(Row(is.head.orNull, is(1).orNull))
    sides.told(key, pair(was), pair(is)).iterator
  }

  private def pair(rows: Seq[Option[Row]]): Option[Row] = rows match {
    case Seq(Some(left), Some(right)) => Some(Row(left, right))
    case Seq(Some(left), None) if leftAlone => Some(Row(left, null))
    case Seq(None, Some(right)) if rightAlone => Some(Row(null, right))
    case _ => None
  }
}

object TableJoins {
  val State = "table_join"

  /**
   * The changes of the join of the sides in `frame`: left row, right row, whether it goes; then the keys.
   *
   * `blanks` has for each side its number of fields if one of nulls is shown as a missing row is, else -1.
   */
  def apply(frame: DataFrame, leftAlone: Boolean, rightAlone: Boolean, blanks: java.util.List[Int]): DataFrame = {
    val sides = TableJoins.sides(frame, blanks)
    TableFrames.processed(frame, 3)(keys => new TableJoins(sides, leftAlone, rightAlone) -> sides.made(keys))
  }

  private[rsassets] def sides(frame: DataFrame, blanks: java.util.List[Int]): TableSides = {
    val Seq(left, right) = frame.schema.take(2).map(_.dataType.asInstanceOf[StructType])
    TableSides(left, right, blanks.asScala.toSeq.map {
      case -1 => null
      // A row without fields has one that says that it is there.
      case 0 => Row(true)
      case fields => Row.fromSeq(Seq.fill(fields)(null))
    })
  }
}

/**
 * Joins each row of a left table with the row of a right table that it names by a foreign key.
 *
 * Per foreign key the state `foreign_join` has the left rows by their own key, and the state `foreign_row` the right
 * row. A left row without foreign key (the first key is not 0) has no partner and no state.
 */
class ForeignJoins(sides: TableSides, own: StructType, leftAlone: Boolean) extends StatefulProcessor[Row, Row, Row] {
  @transient private var lefts: MapState[Row, Row] = _
  @transient private var right: ValueState[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val (key, row) = (Encoders.row(Aggregation.stored(own)), Encoders.row(Aggregation.stored(sides.left)))
    lefts = getHandle.getMapState[Row, Row](ForeignJoins.State, key, row, TTLConfig.NONE)
    right = getHandle.getValueState[Row](ForeignJoins.Right, Encoders.row(Aggregation.stored(sides.right)), TTLConfig.NONE)
  }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (own, others) = rows.toSeq.partition(!_.isNullAt(0))
    val input = TableSides.byKey(own, 3)
    if (key.getInt(0) == 0) joined(key, input, others).iterator
    else if (leftAlone) input.toSeq.flatMap { case (_, changed) => sides.alone(key, changed, 0) }.iterator
    else Iterator.empty
  }

  private def joined(key: Row, input: TableSides.ByKey, others: Iterable[Row]): Seq[Row] = {
    val was = Option(right.get())
    val is = sides.after(was, others, 1)
    val moved = !Changes.same(was.orNull, is.orNull)
    if (moved) { if (is.isEmpty) right.clear() else right.update(is.get) }
    val waiting = if (moved) lefts.iterator().filterNot { case (left, _) => input.contains(left) }.toSeq else Nil
    val told = waiting.flatMap { case (_, row) => sides.told(key, pair(Some(row), was), pair(Some(row), is)) }
    told ++ input.toSeq.flatMap { case (left, changed) =>
      val before = Option(lefts.getValue(left))
      val now = sides.after(before, changed, 0)
      if (now.isEmpty) lefts.removeKey(left) else lefts.updateValue(left, now.get)
      sides.told(key, pair(before, was), pair(now, is))
    }
  }

  private def pair(left: Option[Row], right: Option[Row]): Option[Row] =
    left.filter(_ => leftAlone || right.isDefined).map(Row(_, right.orNull))
}

object ForeignJoins {
  val State = "foreign_join"
  val Right = "foreign_row"

  /** As for `TableJoins`, with the key of the left row as a fourth input; the first key tells rows without another. */
  def apply(frame: DataFrame, leftAlone: Boolean, blanks: java.util.List[Int]): DataFrame = {
    val sides = TableJoins.sides(frame, blanks)
    val own = frame.schema(3).dataType.asInstanceOf[StructType]
    TableFrames.processed(frame, 4)(keys => new ForeignJoins(sides, own, leftAlone) -> sides.made(keys))
  }
}

/** Each row of a stream (left) with the current row of a table (right), which the batch changes first. */
class StreamTables(sides: TableSides, leftAlone: Boolean) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[Row] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    state = getHandle.getValueState[Row](StreamTables.State, Encoders.row(Aggregation.stored(sides.right)), TTLConfig.NONE)

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (stream, changes) = rows.toSeq.partition(!_.isNullAt(0))
    // A row without a key has no partner.
    val now = if (key.getInt(0) != 0) None else {
      val was = Option(state.get())
      val is = sides.after(was, changes, 1)
      if (changes.nonEmpty) { if (is.isEmpty) state.clear() else state.update(is.get) }
      is
    }
    if (now.isEmpty && !leftAlone) Iterator.empty
    else stream.map(row => Row.fromSeq(key.toSeq ++ Seq(row.getStruct(0), now.orNull, false))).iterator
  }
}

object StreamTables {
  val State = "stream_table"

  /** As for `TableJoins`; the first key tells rows of the stream without the others. */
  def apply(frame: DataFrame, leftAlone: Boolean): DataFrame = {
    val sides = TableJoins.sides(frame, java.util.List.of(-1, -1))
    TableFrames.processed(frame, 3)(keys => new StreamTables(sides, leftAlone) -> sides.made(keys))
  }
}
