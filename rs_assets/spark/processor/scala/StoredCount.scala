package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression, UnsafeRow}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types._

/** The number of values of `collect_set` or `collect_list`, from the bytes that Spark keeps in state. */
case class StoredCount(child: Expression) extends UnaryExpression with CodegenFallback {
  override def nullIntolerant: Boolean = true
  override def dataType: DataType = LongType

  override protected def nullSafeEval(stored: Any): Any = {
    val (bytes, row) = (stored.asInstanceOf[Array[Byte]], new UnsafeRow(1))
    row.pointTo(bytes, bytes.length)
    row.getArray(0).numElements().toLong
  }

  override protected def withNewChildInternal(stored: Expression): StoredCount = copy(child = stored)
}

object StoredCount {
  def column(stored: Column): Column = ExpressionUtils.column(StoredCount(ExpressionUtils.expression(stored)))
}
