package org.apache.spark.sql.rsassets

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import scala.collection.mutable

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.rsassets.LatestBySplit.Latest
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A map from each `left` (a text) to the greatest `right` (a number) of its rows; rows with a null do not count. */
case class LatestBySplit(
    left: Expression,
    right: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[Latest] with BinaryLike[Expression] {

  override def nullable: Boolean = false
  override def dataType: DataType = MapType(StringType, LongType, valueContainsNull = false)
  override def createAggregationBuffer(): Latest = mutable.HashMap.empty

  override def update(latest: Latest, row: InternalRow): Latest = {
    val split = left.eval(row).asInstanceOf[UTF8String]
    val at = right.eval(row)
    if (split != null && at != null) LatestBySplit.add(latest, split, at.asInstanceOf[Long])
    latest
  }

  override def merge(latest: Latest, other: Latest): Latest = {
    other.foreach { case (split, at) => LatestBySplit.add(latest, split, at) }
    latest
  }

  override def eval(latest: Latest): Any = ArrayBasedMapData(latest, identity, identity)

  override def serialize(latest: Latest): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(latest.size)
    latest.foreach { case (split, at) =>
      val name = split.getBytes
      out.writeInt(name.length)
      out.write(name)
      out.writeLong(at)
    }
    bytes.toByteArray
  }

  override def deserialize(bytes: Array[Byte]): Latest = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val latest = createAggregationBuffer()
    (0 until in.readInt()).foreach { _ =>
      val split = UTF8String.fromBytes(in.readNBytes(in.readInt()))
      latest.update(split, in.readLong())
    }
    latest
  }

  override def withNewMutableAggBufferOffset(offset: Int): LatestBySplit = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): LatestBySplit = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(split: Expression, at: Expression): LatestBySplit =
    copy(left = split, right = at)
}

object LatestBySplit {
  type Latest = mutable.HashMap[UTF8String, Long]

  def column(split: Column, at: Column): Column = ExpressionUtils.column(
    LatestBySplit(ExpressionUtils.expression(split), ExpressionUtils.expression(at)).toAggregateExpression())

  /** The name is copied only when it is new: Spark reuses the memory of a row. */
  private def add(latest: Latest, split: UTF8String, at: Long): Unit = latest.get(split) match {
    case Some(known) if known >= at =>
    case Some(_) => latest.update(split, at)
    case None => latest.update(split.copy(), at)
  }
}
