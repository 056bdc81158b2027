package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** A row of a side that a batch changes: its own key, what it was and what it is. */
private case class ChangedSide(own: Row, was: Option[Row], is: Option[Row])

/**
 * Joins the rows of two tables by any equal fields, which each table may have in many rows.
 *
 * Per value of these fields the states `left_rows` and `right_rows` have the rows of the tables by their own keys. A row
 * without such a value (the first key is not 0) has no partner and no state. `alone` says for each side whether its rows
 * without a partner are emitted.
 */
class TablePairs(sides: TableSides, own: Seq[StructType], alone: Seq[Boolean])
    extends StatefulProcessor[Row, Row, Row] {
  @transient private var kept: Seq[MapState[Row, Row]] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    kept = TablePairs.States.zip(own).zip(Seq(sides.left, sides.right)).map { case ((state, key), row) =>
      val (keys, rows) = (Encoders.row(Aggregation.stored(key)), Encoders.row(Aggregation.stored(row)))
      getHandle.getMapState[Row, Row](state, keys, rows, TTLConfig.NONE)
    }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (left, right) = rows.toSeq.partition(!_.isNullAt(0))
    val input = Seq(left, right)
    if (key.getInt(0) == 0) joined(key, Seq(0, 1).map(side => changes(input(side), side)))
    else Iterator(0, 1).filter(alone).flatMap { side =>
      byOwnKey(input(side), side).iterator.flatMap { case (_, changed) => sides.alone(key, changed, side) }
    }
  }

  private def changes(input: Seq[Row], side: Int): Seq[ChangedSide] =
    byOwnKey(input, side).toSeq.map { case (own, changed) =>
      val was = Option(kept(side).getValue(own))
      ChangedSide(own, was, sides.after(was, changed, side))
    }

  private def byOwnKey(input: Seq[Row], side: Int): TableSides.ByKey = TableSides.byKey(input, 3 + side)

  private def joined(key: Row, changed: Seq[Seq[ChangedSide]]): Iterator[Row] = {
    val others = Seq(0, 1).map(side => if (changed(1 - side).isEmpty) Nil else unchanged(side, changed(side)))
    val had = partners()
    for (side <- Seq(0, 1)) changed(side).foreach(keep(_, side))
    val has = partners()
    val pairs = changed.head.iterator.flatMap(left => (changed(1) ++ others(1)).iterator.map(left -> _)) ++
      others.head.iterator.flatMap(left => changed(1).iterator.map(left -> _))
    val alones = Seq(0, 1).filter(alone).iterator.flatMap { side =>
      (changed(side) ++ others(side)).iterator.map(row =>
        single(row.was.filterNot(_ => had(1 - side)), side) -> single(row.is.filterNot(_ => has(1 - side)), side))
    }
    (pairs.map { case (left, right) => pair(left.was, right.was) -> pair(left.is, right.is) } ++ alones)
      .flatMap { case (was, is) => sides.told(key, was, is) }
  }

  /** The rows of a side that a batch leaves as they are. */
  private def unchanged(side: Int, changed: Seq[ChangedSide]): Seq[ChangedSide] = {
    val keys = changed.map(_.own).toSet
    kept(side).iterator().collect { case (own, row) if !keys(own) => ChangedSide(own, Some(row), Some(row)) }.toSeq
  }

  /** Whether each side has rows, as far as rows of the other side are emitted without a partner. */
  private def partners(): Seq[Boolean] = Seq(0, 1).map(side => alone(1 - side) && kept(side).exists())

  private def keep(row: ChangedSide, side: Int): Unit =
    if (row.is.isDefined) kept(side).updateValue(row.own, row.is.get)
    else if (row.was.isDefined) kept(side).removeKey(row.own)

  private def pair(left: Option[Row], right: Option[Row]): Option[Row] =
    for (one <- left; other <- right) yield Row(one, other)

  private def single(row: Option[Row], side: Int): Option[Row] = row.map(sides.single(_, side))
}

object TablePairs {
  val States: Seq[String] = Seq("left_rows", "right_rows")

  /** As for `TableJoins`, with the key of the left and of the right row as more inputs; the first key is as there. */
  def apply(frame: DataFrame, leftAlone: Boolean, rightAlone: Boolean): DataFrame = {
    val sides = TableJoins.sides(frame, java.util.List.of(-1, -1))
    val own = Seq(3, 4).map(frame.schema(_).dataType.asInstanceOf[StructType])
    TableFrames.processed(frame, 5)(keys => new TablePairs(sides, own, Seq(leftAlone, rightAlone)) -> sides.made(keys))
  }
}
