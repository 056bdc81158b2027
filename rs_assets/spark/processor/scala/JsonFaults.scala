package org.apache.spark.sql.rsassets

import java.util.regex.Pattern

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Why a record is bad of which Spark makes a row; json_text.py and calendar.py have the same rules. */
object JsonFaults {
  // The first and the last time and day that Python has: of the years 1 and 9999.
  private val Times = (-62135596800000000L, 253402300799999999L)
  private val Days = (-719162, 2932896)
  private val Comma = Pattern.compile("\"[-+.0-9]*,[-+.,0-9eE]*\"")
  private val Seconds = Pattern.compile("(?<![0-9.])[0-9]{13}")
  private val Clock = "[\\s\\x00-\\x1f]*(?:T[0-9]|[0-9]{1,2}:)"
  private val QuotedClock = Pattern.compile("\"" + Clock)
  private val BeginsAsClock = Pattern.compile(Clock)
  private val CommaAlone = UTF8String.fromString(",")

  /** What the name of a value has that is infinite by intent. */
  val Infinite: UTF8String = UTF8String.fromString("inf")

  /** What may be wrong with values of some types, which may be parts of others. */
  abstract class Fault {

    /** Whether values of a type may have the fault themselves. */
    protected def of(kind: DataType): Boolean

    /** Whether a value of such a type has it. */
    protected def is(value: Any, kind: DataType): Boolean

    def mayBeIn(kind: DataType): Boolean = of(kind) || (kind match {
      case StructType(fields) => fields.exists(field => mayBeIn(field.dataType))
      case ArrayType(each, _) => mayBeIn(each)
      case MapType(key, each, _) => mayBeIn(key) || mayBeIn(each)
      case _ => false
    })

    def in(value: Any, kind: DataType): Boolean = (of(kind) && is(value, kind)) || ((value, kind) match {
      case (row: InternalRow, StructType(fields)) =>
        fields.zipWithIndex.exists { case (f, at) => !row.isNullAt(at) && in(row.get(at, f.dataType), f.dataType) }
      case (values: ArrayData, ArrayType(each, _)) => inAny(values, each)
      case (values: MapData, MapType(key, each, _)) => inAny(values.keyArray, key) || inAny(values.valueArray, each)
      case _ => false
    })

    private def inAny(values: ArrayData, kind: DataType): Boolean =
      mayBeIn(kind) && (0 until values.numElements).exists(at => !values.isNullAt(at) && in(values.get(at, kind), kind))
  }

  /** Values that Python cannot represent: a time outside of its years, and a map with a key twice. */
  object Strange extends Fault {
    protected def of(kind: DataType): Boolean = kind match {
      case TimestampType | TimestampNTZType | DateType | _: MapType => true
      case _ => false
    }

    protected def is(value: Any, kind: DataType): Boolean = (value, kind) match {
      case (time: Long, _) => time < Times._1 || time > Times._2
      case (day: Int, _) => day < Days._1 || day > Days._2
      case (values: MapData, MapType(key, _, _)) => twice(values.keyArray, key)
      case _ => false
    }

    private def twice(keys: ArrayData, kind: DataType): Boolean =
      (0 until keys.numElements).map(at => keys.get(at, kind)).toSet.size < keys.numElements
  }

  /** A number that is infinite, as one is that is too large for its type. */
  object Large extends Fault {
    protected def of(kind: DataType): Boolean = kind == DoubleType || kind == FloatType

    protected def is(value: Any, kind: DataType): Boolean = value match {
      case real: Double => real.isInfinite
      case real: Float => real.isInfinite
      case _ => false
    }
  }

  /** A decimal, read as a text, that has a comma. */
  object Exact extends Fault {
    protected def of(kind: DataType): Boolean = kind.isInstanceOf[DecimalType]
    protected def is(value: Any, kind: DataType): Boolean = value.asInstanceOf[UTF8String].contains(CommaAlone)
  }

  /** A tinyint, read as a smallint, that is too large: Spark makes it negative. */
  object Unsigned extends Fault {
    protected def of(kind: DataType): Boolean = kind == ByteType
    protected def is(value: Any, kind: DataType): Boolean = value.asInstanceOf[Short] > Byte.MaxValue
  }

  /** A time, read as a text, that is a number of seconds after the year 9999: Spark may wrap around to another one. */
  object Late extends Fault {
    protected def of(kind: DataType): Boolean = kind == TimestampType
    protected def is(value: Any, kind: DataType): Boolean = value.asInstanceOf[UTF8String].toString.matches("-?[0-9]{13,}")
  }

  /** A time, read as a text, that is a time of day: Spark takes it for one of today. */
  object Undated extends Fault {
    protected def of(kind: DataType): Boolean = kind == TimestampType
    protected def is(value: Any, kind: DataType): Boolean =
      BeginsAsClock.matcher(value.asInstanceOf[UTF8String].toString).lookingAt
  }

  /** Whether a text within it begins as a time of day does. */
  def hasClock(text: UTF8String): Boolean = QuotedClock.matcher(text.toString).find

  /** Whether there is a number of so many digits. */
  def hasSeconds(text: UTF8String): Boolean = Seconds.matcher(text.toString).find

  /** Whether one of the texts may be a number with a comma, which Spark leaves out. */
  def hasComma(text: UTF8String): Boolean = text.contains(CommaAlone) && Comma.matcher(text.toString).find

  /** A type with texts for decimals and times, and smallint for tinyint: they have the values that Spark changes. */
  def wider(kind: DataType): DataType = kind match {
    case _: DecimalType | TimestampType => StringType
    case ByteType => ShortType
    case ArrayType(each, _) => ArrayType(wider(each))
    case MapType(key, each, _) => MapType(wider(key), wider(each))
    case StructType(fields) => StructType(fields.map(f => StructField(f.name, wider(f.dataType))))
    case other => other
  }

  private def isHex(c: Byte): Boolean = Character.digit(c, 16) >= 0

  /** Whether there is an escape of half a surrogate pair, of which Spark makes a question mark. */
  def half(b: Array[Byte], from: Int, to: Int): Boolean = {
    var p = from
    var first = false
    while (p < to) {
      val escape = b(p) == '\\'
      val surrogate = if (escape && p + 4 <= to && b(p + 1) == 'u' && (b(p + 2) | 0x20) == 'd') b(p + 3) | 0x20 else 0
      val second = surrogate >= 'c' && surrogate <= 'f'
      if (first != second) return true
      // In the text after a record there may be escapes that are none.
      first = (surrogate == '8' || surrogate == '9' || surrogate == 'a' || surrogate == 'b') &&
        p + 6 <= to && isHex(b(p + 4)) && isHex(b(p + 5))
      p += (if (first) 6 else if (second) 4 else if (escape) 2 else 1)
    }
    first
  }
}
