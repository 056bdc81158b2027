package org.apache.spark.sql.rsassets

import org.apache.spark.sql.streaming.StatefulProcessorHandle

/** The one timer that a group has, at a time in milliseconds, as the watermark is. */
object Timers {

  /** The end of a wait that only the end of input ends: a day before the time that stands for it. */
  val End: Long = 253402214400000L - 86400000L

  /**
   * When a timer stands for the time `at` in microseconds: the first watermark behind which that has passed.
   *
   * A timer expires when the watermark has reached it. One that did so sooner would be lost: Spark deletes it behind the
   * processor, which has just registered it again.
   */
  def expiry(at: Long): Long = -Math.floorDiv(-at, 1000L)

  /** Let the timer of the group stand at `due` in the place of `before`; None: there is none. */
  def move(handle: StatefulProcessorHandle, before: Option[Long], due: Option[Long]): Unit = if (before != due) {
    before.foreach(handle.deleteTimer)
    due.foreach(handle.registerTimer)
  }
}
