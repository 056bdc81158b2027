package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{LeafExpression, Nondeterministic}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, LongType}

/**
 * A number that grows with the rows of a task, from that of its partition on.
 *
 * Spark's own function for this is refused in a stream, where rows of several batches would have equal numbers.
 */
case class RowInTask() extends LeafExpression with Nondeterministic with CodegenFallback {
  @transient private var next = 0L

  override def nullable: Boolean = false
  override def dataType: DataType = LongType
  override def stateful: Boolean = true
  override protected def initializeInternal(partition: Int): Unit = next = partition.toLong << 33

  override protected def evalInternal(row: InternalRow): Long = {
    next += 1
    next
  }
}

object RowInTask {
  def column(): Column = ExpressionUtils.column(RowInTask())
}
