package org.apache.spark.sql.rsassets

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.spark.sql.sources._

/**
 * What a query wants of a field: `nulls`, and of other values the texts that pass one of `texts` (None: any), or whole
 * numbers from `least` to `most`.
 */
case class JsonLimit(
    nulls: Boolean = false,
    texts: Option[Seq[JsonText]] = None,
    least: Long = Long.MinValue,
    most: Long = Long.MaxValue
) {

  /** At least what both want; of two lists of texts only the first one is kept. */
  def and(other: JsonLimit): JsonLimit =
    JsonLimit(nulls && other.nulls, texts.orElse(other.texts), math.max(least, other.least), math.min(most, other.most))

  /** At least what one of both wants: one range, and any text if there are too many. */
  def or(other: JsonLimit): JsonLimit = {
    val either = for (mine <- texts; others <- other.texts) yield mine ++ others
    val few = either.filter(_.size <= JsonLimit.Most)
    JsonLimit(nulls || other.nulls, few, math.min(least, other.least), math.max(most, other.most))
  }
}

/** A text to compare others with: they begin with it, end with it, both, or have it anywhere. */
final class JsonText(text: String, starts: Boolean, ends: Boolean) extends Serializable {
  private[this] val bytes = text.getBytes(UTF_8)

  /** Whether the text in [from, to) passes. */
  def passes(b: Array[Byte], from: Int, to: Int): Boolean = {
    val last = to - bytes.length
    if (starts) last >= from && (!ends || last == from) && is(b, from)
    else if (ends) last >= from && is(b, last)
    else {
      var p = from
      while (p <= last && !is(b, p)) p += 1
      p <= last
    }
  }

  private def is(b: Array[Byte], at: Int): Boolean = Arrays.equals(b, at, at + bytes.length, bytes, 0, bytes.length)
}

object JsonLimit {
  // The most texts that are compared with that of a line.
  private final val Most = 16
  private val Nothing = JsonLimit(nulls = true, texts = Some(Nil), least = Long.MaxValue, most = Long.MinValue)

  /** What all rows that pass `filters` have in common, by field. */
  def all(filters: Seq[Filter]): Map[String, JsonLimit] =
    filters.map(wanted).foldLeft(Map.empty[String, JsonLimit])(both)

  private def wanted(filter: Filter): Map[String, JsonLimit] = filter match {
    case And(one, other) => both(wanted(one), wanted(other))
    case Or(one, other) => either(wanted(one), wanted(other))
    case IsNull(field) => Map(field -> Nothing)
    case IsNotNull(field) => Map(field -> JsonLimit())
    case EqualTo(field, value) => one(value).map(field -> _).toMap
    case In(field, values) => among(values.toSeq.filter(_ != null)).map(field -> _).toMap
    case StringStartsWith(field, text) => Map(field -> of(text, starts = true))
    case StringEndsWith(field, text) => Map(field -> of(text, ends = true))
    case StringContains(field, text) => Map(field -> of(text))
    case GreaterThanOrEqual(field, Whole(n)) => Map(field -> JsonLimit(least = n))
    case LessThanOrEqual(field, Whole(n)) => Map(field -> JsonLimit(most = n))
    case GreaterThan(field, Whole(n)) if n < Long.MaxValue => Map(field -> JsonLimit(least = n + 1))
    case LessThan(field, Whole(n)) if n > Long.MinValue => Map(field -> JsonLimit(most = n - 1))
    case _ => Map.empty
  }

  private def both(one: Map[String, JsonLimit], other: Map[String, JsonLimit]): Map[String, JsonLimit] =
    one ++ other.map { case (field, limit) => field -> one.get(field).fold(limit)(_.and(limit)) }

  private def either(one: Map[String, JsonLimit], other: Map[String, JsonLimit]): Map[String, JsonLimit] =
    one.collect { case (field, limit) if other.contains(field) => field -> limit.or(other(field)) }

  private def among(values: Seq[Any]): Option[JsonLimit] = {
    val each = values.map(one)
    if (each.forall(_.nonEmpty)) each.flatten.reduceOption(_ or _) else None
  }

  private def one(value: Any): Option[JsonLimit] = value match {
    case text: String => Some(of(text, starts = true, ends = true))
    case Whole(n) => Some(JsonLimit(least = n, most = n))
    case _ => None
  }

  private def of(text: String, starts: Boolean = false, ends: Boolean = false): JsonLimit =
    JsonLimit(texts = Some(Seq(new JsonText(text, starts, ends))))

  private object Whole {
    def unapply(value: Any): Option[Long] = value match {
      case n: Long => Some(n)
      case n: Int => Some(n.toLong)
      case n: Short => Some(n.toLong)
      case n: Byte => Some(n.toLong)
      case _ => None
    }
  }
}
