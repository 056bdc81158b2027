package org.apache.spark.sql.rsassets

import org.apache.spark.sql.streaming.StatefulProcessorHandle

/** The single timer of a group, in milliseconds like the watermark. */
object Timers {

  /** When a wait ends that only the end of input ends: a day before the time that represents it. */
  val End: Long = 253402214400000L - 86400000L

  /**
   * The timer for the time `at` in microseconds: the first watermark at which that time has passed.
   *
   * A timer expires when the watermark has reached it. An earlier one would be lost: Spark deletes a timer after the
   * processor has run, which may just have registered it again.
   */
  def expiry(at: Long): Long = -Math.floorDiv(-at, 1000L)

  /** Move the timer of the group from `before` to `due`; None: there is none. */
  def move(handle: StatefulProcessorHandle, before: Option[Long], due: Option[Long]): Unit = if (before != due) {
    before.foreach(handle.deleteTimer)
    due.foreach(handle.registerTimer)
  }
}
