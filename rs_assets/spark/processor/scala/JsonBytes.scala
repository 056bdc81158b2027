package org.apache.spark.sql.rsassets

import java.nio.ByteOrder

import org.apache.spark.unsafe.Platform

object JsonBytes {
  // So many bytes behind a newline are looked at, and mean nothing.
  final val Beyond = 16
  private final val Ones = 0x0101010101010101L
  private final val Highs = 0x8080808080808080L
  private final val Deepest = 8
  private val Little = ByteOrder.nativeOrder == ByteOrder.LITTLE_ENDIAN

  /** The next eight bytes, the first one in the lowest bits. */
  def word(b: Array[Byte], at: Int): Long = {
    val bytes = Platform.getLong(b, Platform.BYTE_ARRAY_OFFSET + at)
    if (Little) bytes else java.lang.Long.reverseBytes(bytes)
  }

  /** Whether there is nothing but white space. */
  def blank(b: Array[Byte], from: Int, to: Int): Boolean = {
    var p = from
    while (p < to && (b(p) == ' ' || (b(p) >= '\t' && b(p) <= '\r'))) p += 1
    p >= to
  }
}

/**
 * Parts of JSON in bytes that end with a newline: each method returns the place behind the part that begins at `from`,
 * or -1 if it is not one for sure.
 */
abstract class JsonBytes {
  import JsonBytes._

  /** Whether the last text had escapes. */
  protected[this] var escaped = false

  def gap(b: Array[Byte], from: Int): Int = {
    var p = from
    while (b(p) == ' ' || b(p) == '\t') p += 1
    p
  }

  /** The place behind `bytes`. */
  def same(b: Array[Byte], from: Int, bytes: Array[Byte]): Int = {
    var i = 0
    while (i + 8 <= bytes.length) {
      if (word(b, from + i) != word(bytes, i)) return -1
      i += 8
    }
    while (i < bytes.length) {
      if (b(from + i) != bytes(i)) return -1
      i += 1
    }
    from + i
  }

  /** Behind the closing quote of a text, whose first character is at `from`. */
  def text(b: Array[Byte], from: Int): Int = {
    var p = from
    escaped = false
    while (true) {
      val found = special(word(b, p))
      if (found == 0) p += 8
      else {
        p += java.lang.Long.numberOfTrailingZeros(found) >>> 3
        val c = b(p)
        if (c == '"') return p + 1
        escaped |= c == '\\'
        p = if (c == '\\') escape(b, p) else if (c < 0) character(b, p) else -1
        if (p < 0) return -1
      }
    }
    -1
  }

  /** A bit in each byte that is a quote, a backslash, a control character, or beyond ASCII; exact in the first one. */
  private def special(x: Long): Long = {
    val quote = x ^ (Ones * '"')
    val slash = x ^ (Ones * '\\')
    (((quote - Ones) & ~quote) | ((slash - Ones) & ~slash) | ((x - Ones * 0x20) & ~x) | x) & Highs
  }

  private def escape(b: Array[Byte], from: Int): Int = b(from + 1) match {
    case '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => from + 2
    case 'u' =>
      // What may be half of a pair is for a second look.
      if ((b(from + 2) | 0x20) == 'd' && b(from + 3) >= '8') return -1
      var p = from + 2
      while (p < from + 6) {
        if (Character.digit(b(p), 16) < 0) return -1
        p += 1
      }
      p
    case _ => -1
  }

  /** Behind a character beyond ASCII, in UTF-8. */
  private def character(b: Array[Byte], from: Int): Int = {
    val first = b(from) & 0xff
    val second = b(from + 1) & 0xff
    val more =
      if (first >= 0xc2 && first <= 0xdf) 1
      else if ((first & 0xf0) == 0xe0) 2
      else if (first >= 0xf0 && first <= 0xf4) 3
      else -1
    // Longer forms than needed, halves of pairs, and what is beyond Unicode.
    val wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)
    if (more < 0 || wrong) return -1
    var p = from + 1
    while (p <= from + more) {
      if ((b(p) & 0xc0) != 0x80) return -1
      p += 1
    }
    p
  }

  def nothing(b: Array[Byte], from: Int): Int = four(b, from, 'n', 'u', 'l', 'l')
  def yes(b: Array[Byte], from: Int): Int = four(b, from, 't', 'r', 'u', 'e')
  def no(b: Array[Byte], from: Int): Int = if (b(from) == 'f') four(b, from + 1, 'a', 'l', 's', 'e') else -1

  private def four(b: Array[Byte], p: Int, c: Char, d: Char, e: Char, f: Char): Int =
    if (b(p) == c && b(p + 1) == d && b(p + 2) == e && b(p + 3) == f) p + 4 else -1

  /** Behind digits without a zero that leads, of which there are at most `most`. */
  def whole(b: Array[Byte], from: Int, most: Int): Int = {
    val p = digits(b, from, most)
    if (p > from + 1 && b(from) == '0') -1 else p
  }

  /** Behind 1 to `most` digits. */
  def digits(b: Array[Byte], from: Int, most: Int): Int = {
    var p = from
    while (b(p) >= '0' && b(p) <= '9') p += 1
    if (p == from || p - from > most) -1 else p
  }

  /** A number with a point or an exponent, or without, that any parser takes. */
  def number(b: Array[Byte], from: Int): Int = {
    var p = whole(b, if (b(from) == '-') from + 1 else from, 30)
    if (p > 0 && b(p) == '.') p = digits(b, p + 1, 30)
    if (p > 0 && (b(p) == 'e' || b(p) == 'E')) {
      p = digits(b, if (b(p + 1) == '+' || b(p + 1) == '-') p + 2 else p + 1, 2)
    }
    p
  }

  /** Any value, which nobody reads. */
  def any(b: Array[Byte], from: Int, depth: Int = 0): Int = b(from) match {
    case '"' => text(b, from + 1)
    case 't' => yes(b, from)
    case 'f' => no(b, from)
    case 'n' => nothing(b, from)
    case '{' | '[' => if (depth < Deepest) nested(b, from, depth + 1) else -1
    case _ => number(b, from)
  }

  private def nested(b: Array[Byte], from: Int, depth: Int): Int = {
    val named = b(from) == '{'
    val close = if (named) '}' else ']'
    var p = gap(b, from + 1)
    if (b(p) == close) return p + 1
    while (p > 0) {
      if (named) p = key(b, p)
      if (p > 0) p = any(b, gap(b, p), depth)
      if (p > 0) {
        p = gap(b, p)
        if (b(p) == close) return p + 1
        p = if (b(p) == ',') gap(b, p + 1) else -1
      }
    }
    -1
  }

  /** Behind a key and its colon; a key without escapes, of which Spark refuses halves of pairs. */
  def key(b: Array[Byte], from: Int): Int = {
    if (b(from) != '"') return -1
    val end = text(b, from + 1)
    if (end < 0 || escaped) return -1
    val p = gap(b, end)
    if (b(p) == ':') p + 1 else -1
  }
}
