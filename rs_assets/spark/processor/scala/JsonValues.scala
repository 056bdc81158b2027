package org.apache.spark.sql.rsassets

import org.apache.spark.unsafe.Platform

/** Values of JSON that are numbers, days and times, as the types of Spark have them: they leave `number`. */
abstract class JsonValues extends JsonBytes {
  import JsonValues._

  /** The last value: of a whole number, the unscaled digits of a decimal, days or microseconds since 1970. */
  protected[this] var number = 0L
  // The ten bytes of the last day, and its number.
  private[this] var dayText = JsonBytes.word(First, 0)
  private[this] var dayEnd = Platform.getShort(First, Platform.BYTE_ARRAY_OFFSET + 8)
  private[this] var dayNumber = 0L

  /** A whole number of at most `most` digits. */
  protected def integer(b: Array[Byte], from: Int, most: Int): Int = {
    val first = if (b(from) == '-') from + 1 else from
    val end = whole(b, first, most)
    if (end > 0) number = signed(b, from, value(b, first, end, 0))
    end
  }

  /** A number without an exponent that is exact with so many digits before its point, and behind it. */
  protected def decimal(b: Array[Byte], from: Int, before: Int, behind: Int): Int = {
    val first = if (b(from) == '-') from + 1 else from
    val point = whole(b, first, math.max(before, 1))
    if (point < 0 || (before == 0 && b(first) != '0')) return -1
    number = value(b, first, point, 0)
    val end = if (b(point) == '.') digits(b, point + 1, behind) else point
    if (end > point) number = value(b, point + 1, end, number)
    if (end > 0) number = signed(b, from, number * Powers(behind - math.max(end - point - 1, 0)))
    end
  }

  private def value(b: Array[Byte], from: Int, to: Int, before: Long): Long = {
    var n = before
    var p = from
    while (p < to) {
      n = n * 10 + (b(p) - '0')
      p += 1
    }
    n
  }

  private def signed(b: Array[Byte], from: Int, n: Long): Long = if (b(from) == '-') -n else n

  /** A text that is a day. */
  protected def day(b: Array[Byte], from: Int): Int = {
    val end = if (b(from) == '"') date(b, from + 1) else -1
    if (end > 0 && b(end) == '"') end + 1 else -1
  }

  /** A text that is a time; without a zone it is one of UTC, if that is the session's. */
  protected def time(b: Array[Byte], from: Int, utc: Boolean): Int = {
    val at = if (b(from) == '"') date(b, from + 1) else -1
    if (at < 0 || (b(at) != 'T' && b(at) != ' ') || b(at + 3) != ':' || b(at + 6) != ':') return -1
    val hour = two(b, at + 1)
    val minute = two(b, at + 4)
    val second = two(b, at + 7)
    if ((hour | minute | second) < 0 || hour > 23 || minute > 59 || second > 59) return -1
    number = (number * 86400L + hour * 3600 + minute * 60 + second) * 1000000L
    val end = zone(b, fraction(b, at + 9), utc)
    if (end > 0 && b(end) == '"') end + 1 else -1
  }

  private def fraction(b: Array[Byte], from: Int): Int = {
    if (b(from) != '.') return from
    val end = digits(b, from + 1, 6)
    if (end > 0) number += value(b, from + 1, end, 0) * Powers(6 - (end - from - 1))
    end
  }

  private def zone(b: Array[Byte], from: Int, utc: Boolean): Int = {
    if (from < 0) return -1
    if (b(from) == 'Z') return from + 1
    if (b(from) != '+' && b(from) != '-') return if (utc) from else -1
    val hour = two(b, from + 1)
    val minute = two(b, from + 4)
    if ((hour | minute) < 0 || hour > 17 || minute > 59 || b(from + 3) != ':') return -1
    val shift = (hour * 60 + minute) * 60000000L
    number += (if (b(from) == '-') shift else -shift)
    from + 6
  }

  /** Behind `yyyy-mm-dd`; dates before the calendar's reform, or far ahead, are for Spark. */
  private def date(b: Array[Byte], from: Int): Int = {
    val start = JsonBytes.word(b, from)
    val end = Platform.getShort(b, Platform.BYTE_ARRAY_OFFSET + from + 8)
    if (start != dayText || end != dayEnd) {
      val century = two(b, from)
      val years = two(b, from + 2)
      val month = two(b, from + 5)
      val days = two(b, from + 8)
      if ((century | years | month | days) < 0 || b(from + 4) != '-' || b(from + 7) != '-') return -1
      val year = century * 100 + years
      if (year < 1600 || year > 8999 || month < 1 || month > 12 || days < 1 || days > length(year, month)) return -1
      dayNumber = epochDay(year, month, days)
      dayText = start
      dayEnd = end
    }
    number = dayNumber
    from + 10
  }

  private def two(b: Array[Byte], at: Int): Int = {
    val tens = b(at) - '0'
    val ones = b(at + 1) - '0'
    if ((tens | ones) < 0 || tens > 9 || ones > 9) -1 else tens * 10 + ones
  }
}

object JsonValues {
  private val First = "1970-01-01".getBytes
  private val Months = Array(31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
  private val Powers = Array.iterate(1L, 19)(_ * 10)

  private def length(year: Int, month: Int): Int =
    if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) 29 else Months(month - 1)

  private def epochDay(year: Int, month: Int, day: Int): Long = java.time.LocalDate.of(year, month, day).toEpochDay
}
