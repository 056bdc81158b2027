package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.util.AccumulatorV2

/** A part of a file that was read to its end: its bytes, its records, and the bad ones among them. */
case class JudgedPart(file: String, start: Long, bytes: Long, records: Long, bad: Long)

/** The parts of files that were read; a part that is read twice counts once. */
final class JudgedLines extends AccumulatorV2[JudgedPart, Seq[JudgedPart]] {
  private val parts = mutable.Map.empty[(String, Long), JudgedPart]

  def bytes: Long = value.map(_.bytes).sum
  def records: Long = value.map(_.records).sum
  def bad: Long = value.map(_.bad).sum

  override def isZero: Boolean = parts.synchronized(parts.isEmpty)
  override def reset(): Unit = parts.synchronized(parts.clear())
  override def value: Seq[JudgedPart] = parts.synchronized(parts.values.toSeq)
  override def add(part: JudgedPart): Unit = parts.synchronized(parts.update((part.file, part.start), part))
  override def merge(other: AccumulatorV2[JudgedPart, Seq[JudgedPart]]): Unit = other.value.foreach(add)
  override def copy(): JudgedLines = {
    val made = new JudgedLines
    value.foreach(made.add)
    made
  }
}
