package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec

object ExecutedPlan {
  private val Rows = "numTotalStateRows"
  private val Changed = Seq("numUpdatedStateRows", "numRemovedStateRows")

  /**
   * The metrics of the steps with state of a plan that was executed, and the rows at each of its watermarks that had
   * some, as JSON: one call, where each step of a walk over the plan would be several.
   */
  def measured(plan: SparkPlan): String = {
    var dropped, rows, bytes, changed = 0L
    val times = mutable.ArrayBuffer.empty[String]
    plan.foreach {
      case watermark: EventTimeWatermarkExec =>
        val seen = watermark.eventTimeStats.value
        if (seen.count > 0) times += s""""${watermark.nodeId}":[${seen.count},${seen.min},${seen.max}]"""
      case step =>
        def sum(names: String*): Long = names.flatMap(step.metrics.get(_)).map(_.value).sum
        // Sessions drop late rows in a separate operator without state.
        dropped += sum("numRowsDroppedByWatermark")
        if (step.metrics.contains(Rows)) {
          rows += sum(Rows)
          bytes += sum("stateMemory")
          changed += sum(Changed: _*)
        }
    }
    s"""{"dropped":$dropped,"rows":$rows,"bytes":$bytes,"changed":$changed,"times":{${times.mkString(",")}}}"""
  }
}
