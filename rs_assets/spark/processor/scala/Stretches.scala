package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.types._

/**
 * The `rows` of one side of a key that lie in one stretch of time, as a row of state has them.
 *
 * `timer` is the time in milliseconds at which, or before which, a timer stands for them; None if there is none.
 */
class Stretch(val ofLeft: Boolean, val place: Long, var rows: mutable.ArrayBuffer[Waiting]) {
  private val old = rows.size
  var timer: Option[Long] = None
  var changed = false

  /** Whether state has it. */
  def stored: Boolean = old > 0

  /** The rows that came since it was read. */
  def fresh: Iterable[Waiting] = rows.view.drop(old).toSeq
}

/** Time cut into stretches of `size` microseconds since 1970, whole milliseconds; 0: there is one for all times. */
case class Stretches(size: Long) {

  /** The number of the stretch that has a time. */
  def at(time: Long): Long = if (size == 0) 0 else Math.floorDiv(time, size)

  /** The last microsecond of a stretch. */
  def last(place: Long): Long = (place + 1) * size - 1

  /** Those for which a timer at `expiry` milliseconds may stand, which is `reach` behind one of their times. */
  def due(expiry: Long, reach: Long): Seq[Long] = at(expiry * 1000 - 999 - reach) to at(expiry * 1000 - reach)

  /** What state calls a stretch of a side. */
  def key(ofLeft: Boolean, place: Long): Row = Row(if (ofLeft) "left" else "right", microsToInstant(place * size))
}

object Stretches {

  /** For rows that meet in one window. */
  val One: Stretches = Stretches(0)

  /** What state calls a stretch. */
  val Place: StructType = new StructType().add("side", StringType).add("since", TimestampType)

  /** A quarter of an interval: short beside it, so that little is read in vain, and few of them, so that little is asked. */
  def of(interval: Long): Stretches = Stretches(math.max(Math.floorDiv(interval, 4000L) * 1000L, 1000000L))
}
