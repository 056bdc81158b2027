package org.apache.spark.sql.rsassets

import java.io.ByteArrayOutputStream

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types._

/** Accumulators of one group that are not merged yet, one after another. */
class Unmerged {
  private val bytes = new ByteArrayOutputStream()
  private var mergedBytes = 0
  var count = 0

  def content: Array[Byte] = bytes.toByteArray

  def add(content: Array[Byte], more: Int): Unit = {
    bytes.write(content)
    count += more
  }

  def replace(merged: Array[Byte]): Unit = {
    bytes.reset()
    count = 0
    add(merged, 1)
    mergedBytes = merged.length
  }

  /** Whether they are to be merged before more are added: many, or many bytes since the last time. */
  def full: Boolean = count >= Unmerged.Most || (count > 1 && bytes.size - mergedBytes >= Unmerged.MostBytes)
}

object Unmerged {
  private val Most = 1000
  private val MostBytes = 1 << 20
}

/**
 * The accumulator of all rows of a group, merged by Python of those in the column `child`; null without one.
 *
 * An accumulator is bytes, which Python alone reads, and which end by themselves. State has one for each group.
 */
case class Accumulators(
    child: Expression,
    code: PythonCode,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
    extends TypedImperativeAggregate[Unmerged] with UnaryLike[Expression] {
  @transient private lazy val worker = TaskWorker.shared(code)

  override def nullable: Boolean = true
  override def dataType: DataType = BinaryType
  override protected def stringArgs: Iterator[Any] = Iterator(child)
  override def createAggregationBuffer(): Unmerged = new Unmerged

  override def update(known: Unmerged, input: InternalRow): Unmerged = {
    val made = child.eval(input)
    if (made == null) known else added(known, made.asInstanceOf[Array[Byte]], 1)
  }

  override def merge(known: Unmerged, other: Unmerged): Unmerged = added(known, other.content, other.count)

  override def eval(known: Unmerged): Any = if (known.count == 0) null else merged(known)

  override def serialize(known: Unmerged): Array[Byte] =
    if (known.count == 0) Array.emptyByteArray else merged(known)

  override def deserialize(stored: Array[Byte]): Unmerged =
    if (stored.isEmpty) new Unmerged else added(new Unmerged, stored, 1)

  private def added(known: Unmerged, content: Array[Byte], count: Int): Unmerged = {
    known.add(content, count)
    if (known.full) merged(known)
    known
  }

  private def merged(known: Unmerged): Array[Byte] = {
    if (known.count > 1) known.replace(worker.answer(known.content, PythonWakes.Never))
    known.content
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(made: Expression): Accumulators = copy(child = made)
}

object Accumulators {
  def column(made: Column, code: PythonCode): Column =
    ExpressionUtils.column(Accumulators(ExpressionUtils.expression(made), code).toAggregateExpression())
}
