package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GetStructField}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{instantToMicros, microsToInstant}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Each row of a stream (left) with the version of a table (right) that is valid at its time. A batch changes the
 * versions first.
 *
 * An input row has the left or the right row, whether it ends the right one, its time and, of right ones, the order of
 * those of one time. The state `versions` has, per key, the right rows by the time from which they are valid, null where
 * the row ends: those of the last `history` microseconds before the newest one, and the one before them. A row of the
 * stream that is older finds nothing.
 */
class TableVersions(sides: TableSides, order: StructType, leftAlone: Boolean, history: Long)
    extends StatefulProcessor[Row, Row, Row] {
  private type Version = (Long, Row)

  @transient private var state: ValueState[Row] = _
  @transient private var toInput: Any => Any = _
  @transient private var inBatch: Ordering[InternalRow] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val version = new StructType().add("since", TimestampType).add("row", Aggregation.stored(sides.right))
    val kept = new StructType().add("versions", ArrayType(version))
    state = getHandle.getValueState[Row](TableVersions.State, Encoders.row(kept), TTLConfig.NONE)
    toInput = CatalystTypeConverters.createToCatalystConverter(
      new StructType().add("order", order).add("right", sides.right))
    inBatch = TableRows.ordering(Seq(order, sides.right).zipWithIndex.flatMap { case (of, place) =>
      of.indices.map(GetStructField(BoundReference(place, of, nullable = true), _))
    })
  }

  override def handleInputRows(key: Row, rows: Iterator[Row], timers: TimerValues): Iterator[Row] = {
    val (stream, input) = rows.toSeq.partition(!_.isNullAt(0))
    // A row without a key has no partner.
    val versions = if (key.getInt(0) != 0) Vector.empty else changed(input)
    stream.iterator.flatMap { row =>
      val found = Option(row.getInstant(3)).flatMap(at => valid(versions, instantToMicros(at)))
      Option.when(leftAlone || found.isDefined)(Row.fromSeq(key.toSeq ++ Seq(row.getStruct(0), found.orNull, false)))
    }
  }

  /** The versions with those of a batch. */
  private def changed(input: Seq[Row]): Vector[Version] = {
    val before = Option(state.get()).fold(Vector.empty[Version])(_.getSeq[Row](0).map { version =>
      instantToMicros(version.getInstant(0)) -> version.getStruct(1)
    }.toVector)
    if (input.isEmpty) before
    else {
      val newest = input.groupMapReduce(row => instantToMicros(row.getInstant(3)))(identity)(later)
      val come = newest.view.mapValues(row => if (row.getBoolean(2)) null else row.getStruct(1))
      val now = kept((before.toMap ++ come).toVector.sortBy(_._1))
      state.update(Row(now.map { case (at, row) => Row(microsToInstant(at), row) }))
      now
    }
  }

  private def later(one: Row, other: Row): Row = if (inBatch.compare(internal(one), internal(other)) > 0) one else other
  private def internal(row: Row): InternalRow = toInput(Row(row.getStruct(4), row.getStruct(1))).asInstanceOf[InternalRow]

  /** Without those before the last one that began before the history: it may be an end, behind which a late one comes. */
  private def kept(versions: Vector[Version]): Vector[Version] = {
    val (old, recent) = versions.span(_._1 <= versions.last._1 - history)
    old.lastOption.toVector ++ recent
  }

  private def valid(versions: Vector[Version], at: Long): Option[Row] =
    versions.lastOption.filter(newest => at >= newest._1 - history)
      .flatMap(_ => versions.takeWhile(_._1 <= at).lastOption).flatMap(version => Option(version._2))
}

object TableVersions {
  val State = "versions"

  /**
   * The rows of the stream in `frame`: left row, right row, whether it ends, time and order; then the keys, of which the
   * first tells rows of the stream without the others.
   */
  def apply(frame: DataFrame, leftAlone: Boolean, history: Long): DataFrame = {
    val sides = TableJoins.sides(frame, java.util.List.of(-1, -1))
    val order = frame.schema(4).dataType.asInstanceOf[StructType]
    TableFrames.processed(frame, 5)(keys => new TableVersions(sides, order, leftAlone, history) -> sides.made(keys))
  }
}
