package org.apache.spark.sql.rsassets

import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types._

/**
 * Looks once at each byte of a line, and takes it if it is one object, each declared field comes at most once, and each
 * value is certainly one of its type for Spark. The wanted fields become a row; other lines are for Spark's parser.
 */
final class JsonScanner(rules: JsonRules) extends JsonValues {
  import JsonScanner._
  private[this] val fields = rules.schema.fields
  private[this] val n = fields.length
  private[this] val keys: Array[Array[Byte]] = fields.map(field => s"\"${field.name}\":".getBytes(UTF_8))
  private[this] val kinds: Array[Int] = fields.map(kind(_, rules.times))
  private[this] val before: Array[Int] = fields.map(places(_)._1)
  private[this] val behind: Array[Int] = fields.map(places(_)._2)
  private[this] val ordinals: Array[Int] = fields.map(field => rules.wanted.getFieldIndex(field.name).getOrElse(-1))
  private[this] val limits = fields.map(field => rules.limits.get(field.name))
  private[this] val texts: Array[Array[JsonText]] = limits.map(_.flatMap(_.texts).map(_.toArray).orNull)
  private[this] val least: Array[Long] = limits.map(_.fold(Long.MinValue)(_.least))
  private[this] val most: Array[Long] = limits.map(_.fold(Long.MaxValue)(_.most))
  private[this] val needed: Array[Int] = fields.indices.filter(ordinals(_) >= 0).toArray
  private[this] val required: Array[Int] = fields.indices.filter(limits(_).exists(!_.nulls)).toArray
  private[this] val able = fields.forall(field => written(field.name))
  private[this] val writer = new UnsafeRowWriter(rules.wanted.length, 256)
  // The field that came behind each field the last time; at n: the first one.
  private[this] val follows: Array[Int] = Array.tabulate(n + 1)(field => if (field == n) 0 else field + 1)
  // The line in which each field came last, and in which it had a value.
  private[this] val seen = new Array[Long](n)
  private[this] val full = new Array[Long](n)
  private[this] var lines = 0L
  private[this] var refused = false

  /** Whether the query certainly does not want the last line. */
  def dropped: Boolean = refused

  /** The wanted fields of the last line that was taken, until the next call of `line`. */
  def row: InternalRow = writer.getRow

  /** Behind the newline of the line that begins at `from`; -1 if it is not taken. */
  def line(b: Array[Byte], from: Int): Int = {
    writer.reset()
    writer.zeroOutNullBytes()
    refused = false
    lines += 1
    var p = gap(b, from)
    if (b(p) != '{' || !able) return -1
    p = gap(b, p + 1)
    p = if (b(p) == '}') p + 1 else members(b, p)
    if (p < 0) return -1
    p = gap(b, p)
    if (b(p) == '\r') p += 1
    if (b(p) != '\n') return -1
    complete()
    p + 1
  }

  private def members(b: Array[Byte], from: Int): Int = {
    var p = from
    var last = n
    while (true) {
      var field = follows(last)
      val known = if (field < n) same(b, p, keys(field)) else -1
      if (known > 0) p = known
      else {
        val end = key(b, p)
        if (end < 0) return -1
        field = find(b, p)
        if (field < n) follows(last) = field
        p = end
      }
      p = gap(b, p)
      p = if (field == n) any(b, p) else member(b, p, field)
      if (p < 0) return -1
      if (field < n) last = field
      p = gap(b, p)
      if (b(p) == '}') return p + 1
      if (b(p) != ',') return -1
      p = gap(b, p + 1)
    }
    -1
  }

  /** The field whose key begins at `from`; n if the schema has none. */
  private def find(b: Array[Byte], from: Int): Int = {
    var field = 0
    while (field < n) {
      // Without the colon, before which there may be a gap.
      val length = keys(field).length - 1
      val fits = from + length <= b.length
      if (fits && java.util.Arrays.equals(b, from, from + length, keys(field), 0, length)) return field
      field += 1
    }
    n
  }

  private def member(b: Array[Byte], from: Int, field: Int): Int = {
    if (seen(field) == lines) return -1
    seen(field) = lines
    if (b(from) == 'n') return nothing(b, from)
    full(field) = lines
    val to = if (refused) -1 else ordinals(field)
    (kinds(field): @scala.annotation.switch) match {
      case Text => string(b, from, field, to)
      case Bool => boolean(b, from, to)
      case Time => if (to < 0) time(b, from, rules.utc) else put(time(b, from, rules.utc), to)
      case Day => if (to < 0) day(b, from) else put4(day(b, from), to)
      case Real => real(b, from, to, single = false)
      case Single => real(b, from, to, single = true)
      case Exact => put(decimal(b, from, before(field), behind(field)), to)
      case Other => -1
      case size => whole(b, from, field, to, size)
    }
  }

  private def string(b: Array[Byte], from: Int, field: Int, to: Int): Int = {
    val end = if (b(from) == '"') text(b, from + 1) else -1
    val some = texts(field)
    if (end < 0 || (to < 0 && some == null)) return end
    if (escaped) return -1
    if (some != null && !passes(some, b, from + 1, end - 1)) refused = true
    else if (to >= 0) writer.write(to, b, from + 1, end - from - 2)
    end
  }

  private def passes(some: Array[JsonText], b: Array[Byte], from: Int, to: Int): Boolean = {
    var i = 0
    while (i < some.length && !some(i).passes(b, from, to)) i += 1
    i < some.length
  }

  private def boolean(b: Array[Byte], from: Int, to: Int): Int = {
    val value = b(from) == 't'
    val end = if (value) yes(b, from) else no(b, from)
    if (end > 0 && to >= 0) writer.write(to, value)
    end
  }

  private def whole(b: Array[Byte], from: Int, field: Int, to: Int, size: Int): Int = {
    val end = integer(b, from, Sizes(size))
    if (end < 0) return -1
    if (number < least(field) || number > most(field)) refused = true
    else if (to >= 0) (size: @scala.annotation.switch) match {
      case Eight => writer.write(to, number)
      case Four => writer.write(to, number.toInt)
      case Two => writer.write(to, number.toShort)
      case One => writer.write(to, number.toByte)
    }
    end
  }

  private def put(end: Int, to: Int): Int = {
    if (end > 0 && to >= 0) writer.write(to, number)
    end
  }

  private def put4(end: Int, to: Int): Int = {
    if (end > 0 && to >= 0) writer.write(to, number.toInt)
    end
  }

  private def real(b: Array[Byte], from: Int, to: Int, single: Boolean): Int = {
    val end = number(b, from)
    // Spark takes -0 for a whole number.
    if (end < 0 || (b(from) == '-' && b(from + 1) == '0' && end == from + 2)) return -1
    if (to < 0 && !single) return end
    val text = new String(b, from, end - from, ISO_8859_1)
    val value = java.lang.Double.parseDouble(text)
    if (!single) writer.write(to, value)
    else {
      val near = java.lang.Float.parseFloat(text)
      // Rounding twice is not always rounding once, and a number may be too large.
      if (near != value.toFloat || near.isInfinite) return -1
      if (to >= 0) writer.write(to, near)
    }
    end
  }

  /** Fields without a value are null, and no query wants a line without one that it asks for. */
  private def complete(): Unit = {
    var i = 0
    while (i < required.length) {
      if (full(required(i)) != lines) refused = true
      i += 1
    }
    i = 0
    while (!refused && i < needed.length) {
      val field = needed(i)
      if (full(field) != lines) writer.setNullAt(ordinals(field))
      i += 1
    }
  }
}

object JsonScanner {
  private final val Text = 0
  private final val Bool = 1
  private final val Time = 2
  private final val Day = 3
  private final val Real = 4
  private final val Single = 5
  private final val Exact = 6
  private final val Other = 7
  private final val Eight = 8
  private final val Four = 9
  private final val Two = 10
  private final val One = 11
  // The digits of whole numbers that certainly fit, by their kinds.
  private val Sizes = Array(0, 0, 0, 0, 0, 0, 0, 0, 18, 9, 4, 2)
  private val Kinds: Map[DataType, Int] = Map(
    StringType -> Text,
    BooleanType -> Bool,
    TimestampType -> Time,
    DateType -> Day,
    DoubleType -> Real,
    FloatType -> Single,
    LongType -> Eight,
    IntegerType -> Four,
    ShortType -> Two,
    ByteType -> One
  )

  /** Whether a key has the name as it is: others come with escapes, which Spark resolves. */
  private def written(name: String): Boolean =
    name.forall(c => c >= ' ' && c != '"' && c != '\\' && !Character.isSurrogate(c))

  private def kind(field: StructField, times: Boolean): Int = field.dataType match {
    case TimestampType | DateType if !times => Other
    case decimal: DecimalType => if (decimal.precision <= Decimal.MAX_LONG_DIGITS) Exact else Other
    case known => Kinds.getOrElse(known, Other)
  }

  /** How many digits a decimal has before its point, and behind it. */
  private def places(field: StructField): (Int, Int) = field.dataType match {
    case decimal: DecimalType => (decimal.precision - decimal.scale, decimal.scale)
    case _ => (0, 0)
  }
}
