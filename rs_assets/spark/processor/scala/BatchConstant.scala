package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, TimestampType}

/**
 * A time that is the same for all rows of a batch, and another one in the next batch.
 *
 * Spark writes a time into the code that it generates, so each batch would have new code to compile and to warm up.
 * Here the code refers to the value. Spark puts the clock of the batch into a plan when that is optimized already, so it
 * is found as late as the code is made.
 */
case class BatchConstant(child: Expression) extends UnaryExpression {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  // Folded, it would be a constant of the code again.
  override def foldable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row)

  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val value = child.transform { case BatchConstant(inner) => inner }
    if (!value.foldable || dataType != TimestampType) child.genCode(context)
    else Option(value.eval()).fold(child.genCode(context)) { known =>
      val reference = context.addReferenceObj("batchConstant", known, "java.lang.Long")
      code.copy(code = code"final long ${code.value} = $reference.longValue();", isNull = FalseLiteral)
    }
  }

  override protected def withNewChildInternal(value: Expression): BatchConstant = copy(child = value)
}

object BatchConstant {
  def column(value: Column): Column = ExpressionUtils.column(BatchConstant(ExpressionUtils.expression(value)))
}
