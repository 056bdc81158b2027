package org.apache.spark.sql.rsassets

import java.io.InputStream
import java.util.Arrays

import org.apache.hadoop.fs.{Path, Seekable}
import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow

/**
 * The records of a part of a file: of the lines that begin behind its `start`, and at its end at the latest; the first
 * part has the first line, too. So each line belongs to one part. A packed file is one part.
 */
final class JsonLineReader(
    in: InputStream,
    path: Path,
    start: Long,
    length: Long,
    packed: Boolean,
    rules: JsonRules,
    counts: JudgedLines
) extends Iterator[InternalRow] {
  private[this] val scanner = new JsonScanner(rules)
  private[this] lazy val spark = new SparkLines(rules)
  private[this] var buffer = new Array[Byte](JsonLineReader.Block + JsonBytes.Beyond)
  private[this] var at = 0 // of the next line in the buffer
  private[this] var filled = 0
  private[this] var whole = 0 // behind the last newline in the buffer
  private[this] var base = 0L // of the buffer in the file
  private[this] var ended = false
  private[this] var closed = false
  private[this] var ready: InternalRow = _
  private[this] var records = 0L
  private[this] var bad = 0L
  if (start == 0 || packed) skipMark() else skipLine()

  override def hasNext: Boolean = {
    while (ready == null && !finished()) advance()
    ready != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = ready
    ready = null
    row
  }

  /** Takes the next line, which may have no row. */
  private def advance(): Unit = {
    val behind = scanner.line(buffer, at)
    if (behind > 0) {
      if (behind - at - 1 > rules.cap) refuse(rules.beyond)
      records += 1
      at = behind
      if (!scanner.dropped) ready = scanner.row
    } else {
      val end = newline(at, whole)
      alone(at, end)
      at = end + 1
    }
  }

  /** A line that the scanner does not take. */
  private def alone(from: Int, end: Int): Unit = {
    if (end - from > rules.cap) refuse(rules.beyond)
    if (!JsonBytes.blank(buffer, from, end)) {
      records += 1
      ready = spark.row(buffer, from, if (buffer(end - 1) == '\r') end - 1 else end)
      if (ready == null) {
        bad += 1
        rules.bad.foreach(refuse)
      }
    }
  }

  /** Ends the task; the text is JSON, in which the path of the file takes the place of a mark. */
  private def refuse(text: String): Nothing = {
    val file = path.toUri.getPath.replace("\\", "\\\\").replace("\"", "\\\"")
    throw new SparkException(text.replace(JsonLineReader.File, file))
  }

  /** Whether no line is left; fills the buffer for the next one. */
  private def finished(): Boolean = {
    while (at >= whole && !ended) fill()
    val done = at >= whole || (!packed && base + at > start + length)
    if (done && !closed) {
      closed = true
      in.close()
      counts.add(JudgedPart(path.toString, start, length, records, bad))
    }
    done
  }

  /** Moves what is left to the front, and reads more. */
  private def fill(): Unit = {
    val left = filled - at
    if (left > rules.cap.toLong + JsonLineReader.Block) refuse(rules.beyond)
    System.arraycopy(buffer, at, buffer, 0, left)
    base += at
    at = 0
    filled = left
    if (buffer.length - JsonBytes.Beyond - filled < JsonLineReader.Block / 2) {
      buffer = Arrays.copyOf(buffer, buffer.length * 2)
    }
    val n = in.read(buffer, filled, buffer.length - JsonBytes.Beyond - filled)
    if (n < 0) ended = true else filled += n
    if (ended && filled > 0 && buffer(filled - 1) != '\n') {
      buffer(filled) = '\n'
      filled += 1
    }
    whole = filled
    while (whole > 0 && buffer(whole - 1) != '\n') whole -= 1
  }

  /** The mark of UTF-8 that a file may begin with. */
  private def skipMark(): Unit = {
    while (filled < 3 && !ended) fill()
    if (filled >= 3 && buffer(0) == 0xef.toByte && buffer(1) == 0xbb.toByte && buffer(2) == 0xbf.toByte) at = 3
  }

  /** The rest of the line in which the part begins: it is of the part before. */
  private def skipLine(): Unit = {
    in match {
      case file: Seekable => file.seek(start)
      case other => other.skipNBytes(start)
    }
    base = start
    var found = false
    while (!found && !(ended && at >= filled)) {
      val end = newline(at, filled)
      found = end >= 0
      at = if (found) end + 1 else filled
      if (!found) fill()
    }
  }

  private def newline(from: Int, to: Int): Int = {
    var p = from
    while (p < to) {
      if (buffer(p) == '\n') return p
      p += 1
    }
    -1
  }
}

object JsonLineReader {
  private val Block = 1 << 18
  // Stands for the path in the text of an exception.
  private val File = "@file"
}
