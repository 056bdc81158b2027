package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.{Encoders, Row}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.instantToMicros
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * When the timers of the keys of a bucket are to be looked at. Times are milliseconds, as of Spark's timers.
 *
 * Spark has timers for a bucket, and a bucket has many keys. A stored state notes its time, and the state `process_due`
 * has the keys of each time, in parts, so that a page stays small where many keys have one time. A key is looked at when
 * the second of its earliest timer begins, so that many keys share a time, and then at the timer itself. A key whose
 * timer has moved on is looked at in vain once, instead of being moved from page to page.
 *
 * In a state the field `timers` is a list of structs whose second field is a time; the field after it is `wake`.
 */
class PythonWakes(handle: StatefulProcessorHandle, key: StructType, timers: Int) {
  import PythonWakes._

  private val pages = handle.getMapState[Row, Row](
    Due, Encoders.row(Place), Encoders.row(new StructType().add("keys", ArrayType(key))), TTLConfig.NONE)
  private val fresh = mutable.TreeMap.empty[Long, mutable.ArrayBuffer[Row]]
  private val looked = mutable.HashSet.empty[Row]
  private var lookedAt = Never

  /** Whether a stored state is to be looked at. */
  def wakes(kept: Row, now: Long): Boolean = of(kept).exists(_ <= now)

  /** Whether a state has a timer that the watermark has reached. */
  def due(state: Row, now: Long): Boolean = least(state).exists(_ <= now)

  /** Whether `state` is to be looked at at another time than `kept`, which it replaces. */
  def moves(kept: Row, state: Row, now: Long): Boolean = Option(kept).flatMap(of) != next(kept, state, now)

  /** When `state` of `key`, which replaces `kept`, is to be looked at, which `register` makes known. */
  def noted(key: Row, kept: Row, state: Row, now: Long): Option[Long] = {
    val at = next(kept, state, now)
    if (at != Option(kept).flatMap(of)) at.foreach(fresh.getOrElseUpdate(_, mutable.ArrayBuffer.empty) += key)
    at
  }

  /** Set the timers of the current bucket for what was noted. */
  def register(): Unit = {
    fresh.foreach { case (at, keys) =>
      val first = place(at, Whole)
      if (!pages.containsKey(first)) {
        pages.updateValue(first, Row(Nil))
        handle.registerTimer(at)
      }
      keys.groupBy(key => Math.floorMod(key.hashCode, Parts)).toSeq.sortBy(_._1).foreach { case (part, more) =>
        pages.updateValue(place(at, part), Row((keysOf(place(at, part)) ++ more).distinct))
      }
    }
    fresh.clear()
  }

  /** The keys of the current `bucket` that are to be looked at now; none if it was asked before. */
  def taken(bucket: Row, now: Long): Seq[Row] = {
    if (now != lookedAt) looked.clear()
    lookedAt = now
    if (!looked.add(bucket)) Nil
    else handle.listTimers().filter(_ <= now).toSeq.sorted.flatMap { at =>
      (Whole until Parts).flatMap { part =>
        val keys = keysOf(place(at, part))
        pages.removeKey(place(at, part))
        keys
      }
    }.distinct
  }

  private def keysOf(place: Row): Seq[Row] = Option(pages.getValue(place)).fold(Seq.empty[Row])(_.getSeq[Row](0))

  /** The old time, if it comes first; else the second of the earliest timer, or that timer if its second has begun. */
  private def next(kept: Row, state: Row, now: Long): Option[Long] =
    if (now >= Timers.End) None
    else least(state).map { due =>
      val second = Math.floorDiv(due, SecondMs) * SecondMs
      Option(kept).flatMap(of).filter(at => at > now && at <= due)
        .getOrElse(if (second > now) second else math.max(due, now + 1))
    }

  private def of(kept: Row): Option[Long] = millis(kept, timers + 1)

  private def least(state: Row): Option[Long] =
    Option(state.getSeq[Row](timers)).flatMap(_.flatMap(millis(_, 1)).minOption)

  private def millis(row: Row, field: Int): Option[Long] =
    Option(row.getInstant(field)).map(time => Timers.expiry(instantToMicros(time)))
}

object PythonWakes {
  val Due = "process_due"
  val Wake = "wake"
  /** The watermark of a step without time. */
  val Never: Long = -1
  /** The page that tells that a time is known, and the number of those with its keys. */
  private val Whole = -1
  private val Parts = 16
  private val SecondMs = 1000L
  private val Place = new StructType().add("at", LongType).add("part", IntegerType)

  private def place(at: Long, part: Int): Row = Row(at, part)
}
