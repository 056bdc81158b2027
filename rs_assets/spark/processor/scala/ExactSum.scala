package org.apache.spark.sql.rsassets

import java.math.BigInteger
import java.nio.ByteBuffer

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types._

/**
 * A sum of doubles without rounding, `whole` times 2 to the power `exponent`: what was added can be subtracted, in any
 * order. Values that are not finite are counted, so that they can be subtracted, too.
 */
class Sum {
  private var whole = BigInteger.ZERO
  private var exponent = 0
  private var nans, highs, lows = 0L

  /** Add a value so many times; fewer than none is to subtract it. */
  def add(value: Double, times: Long): Unit =
    if (value.isNaN) nans += times
    else if (value.isPosInfinity) highs += times
    else if (value.isNegInfinity) lows += times
    else if (value != 0) {
      val bits = java.lang.Double.doubleToRawLongBits(value)
      val power = (bits >>> Sum.Digits & 0x7ff).toInt
      val digits = bits & (1L << Sum.Digits) - 1
      // A subnormal number has no leading 1.
      val whole = if (power == 0) digits else digits | 1L << Sum.Digits
      val zeros = java.lang.Long.numberOfTrailingZeros(whole)
      val shifted = BigInteger.valueOf((if (bits < 0) -whole else whole) >> zeros)
      plus(if (times == 1) shifted else shifted.multiply(BigInteger.valueOf(times)), math.max(power, 1) + Sum.Least - 1 + zeros)
    }

  def add(other: Sum): Unit = {
    nans += other.nans
    highs += other.highs
    lows += other.lows
    plus(other.whole, other.exponent)
  }

  /** The nearest double; infinite if the sum itself is too large. */
  def value: Double =
    if (nans > 0 || (highs > 0 && lows > 0)) Double.NaN
    else if (highs > 0) Double.PositiveInfinity
    else if (lows > 0) Double.NegativeInfinity
    else whole.signum * nearest(whole.abs)

  def content: Array[Byte] = {
    val zeros = math.max(0, whole.getLowestSetBit)
    val bytes = whole.shiftRight(zeros).toByteArray
    val made = ByteBuffer.allocate(3 * 8 + 4 + bytes.length)
    made.putLong(nans).putLong(highs).putLong(lows).putInt(exponent + zeros).put(bytes).array
  }

  def load(content: Array[Byte]): Sum = {
    val from = ByteBuffer.wrap(content)
    nans = from.getLong
    highs = from.getLong
    lows = from.getLong
    exponent = from.getInt
    val bytes = new Array[Byte](from.remaining)
    from.get(bytes)
    whole = new BigInteger(bytes)
    this
  }

  private def plus(other: BigInteger, power: Int): Unit =
    if (whole.signum == 0) {
      whole = other
      exponent = power
    } else if (other.signum != 0) {
      if (power < exponent) {
        whole = whole.shiftLeft(exponent - power)
        exponent = power
      }
      whole = whole.add(other.shiftLeft(power - exponent))
    }

  /** The double that is nearest to `size` at the exponent, an even one of two. */
  private def nearest(size: BigInteger): Double = {
    val last = math.max(exponent + size.bitLength - Sum.Digits - 1, Sum.Least)
    val cut = last - exponent
    if (cut <= 0) math.scalb(size.doubleValue, exponent)
    else {
      val kept = size.shiftRight(cut)
      val up = size.testBit(cut - 1) && (kept.testBit(0) || size.getLowestSetBit < cut - 1)
      math.scalb((if (up) kept.add(BigInteger.ONE) else kept).doubleValue, last)
    }
  }
}

object Sum {
  /** The bits of a double after its leading 1, and the power of 2 of the least bit of all. */
  val Digits = 52
  val Least = -1074
}

/** The sum of the doubles `left`, each of them `right` times: 1 for a row that comes, -1 for one that goes. */
case class ExactSum(
    left: Expression,
    right: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
    extends TypedImperativeAggregate[Sum] with BinaryLike[Expression] {

  override def nullable: Boolean = false
  override def dataType: DataType = DoubleType
  override protected def stringArgs: Iterator[Any] = Iterator(left, right)
  override def createAggregationBuffer(): Sum = new Sum

  override def update(known: Sum, input: InternalRow): Sum = {
    val value = left.eval(input)
    if (value != null) known.add(value.asInstanceOf[Double], right.eval(input).asInstanceOf[Long])
    known
  }

  override def merge(known: Sum, other: Sum): Sum = {
    known.add(other)
    known
  }

  override def eval(known: Sum): Any = known.value
  override def serialize(known: Sum): Array[Byte] = known.content
  override def deserialize(stored: Array[Byte]): Sum = new Sum().load(stored)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(one: Expression, other: Expression): ExactSum =
    copy(left = one, right = other)
}

object ExactSum {
  def column(values: Column, signs: Column): Column =
    ExpressionUtils.column(
      ExactSum(ExpressionUtils.expression(values), ExpressionUtils.expression(signs)).toAggregateExpression())
}
