package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.types._

/**
 * The `rows` of one side of a key in one time bucket, as in a row of state.
 *
 * `timer` is a time in milliseconds at or before which a timer fires for them; None if there is none.
 */
class Stretch(val ofLeft: Boolean, val place: Long, var rows: mutable.ArrayBuffer[Waiting]) {
  private val old = rows.size
  var timer: Option[Long] = None
  var changed = false

  /** Whether it is in state. */
  def stored: Boolean = old > 0

  /** The rows that were added since it was read. */
  def fresh: Iterable[Waiting] = rows.view.drop(old).toSeq
}

/** Time cut into buckets of `size` microseconds since 1970, a multiple of 1000; 0: one bucket for all times. */
case class Stretches(size: Long) {

  /** The number of the bucket of a time. */
  def at(time: Long): Long = if (size == 0) 0 else Math.floorDiv(time, size)

  /** The last microsecond of a bucket. */
  def last(place: Long): Long = (place + 1) * size - 1

  /** The buckets for which a timer at `expiry` milliseconds may fire, `reach` after one of their times. */
  def due(expiry: Long, reach: Long): Seq[Long] = at(expiry * 1000 - 999 - reach) to at(expiry * 1000 - reach)

  /** The state key of a side's bucket. */
  def key(ofLeft: Boolean, place: Long): Row = Row(if (ofLeft) "left" else "right", microsToInstant(place * size))
}

object Stretches {

  /** For rows that match within one window. */
  val One: Stretches = Stretches(0)

  /** The schema of a bucket's state key. */
  val Place: StructType = new StructType().add("side", StringType).add("since", TimestampType)

  /** A quarter of an interval: short enough that few rows are read in vain, long enough that few buckets are read. */
  def of(interval: Long): Stretches = Stretches(math.max(Math.floorDiv(interval, 4000L) * 1000L, 1000000L))
}
