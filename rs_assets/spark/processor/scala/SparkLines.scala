package org.apache.spark.sql.rsassets

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Single lines by JsonFields, which a second look at a batch uses as well. */
final class SparkLines(rules: JsonRules) {
  import JsonFaults._
  private val whole = StructType(rules.schema.fields).asNullable.add(SparkLines.Corrupt, StringType)
  private val corrupt = whole.length - 1
  private val strange = places(Strange)
  private val large = places(Large)
  private val exact = places(Exact)
  private val unsigned = places(Unsigned)
  private val late = places(Late)
  // A format of one's own says what a text without a date means.
  private val undated = if (rules.times) places(Undated) else Nil
  private val parser = evaluator(whole)
  private lazy val written = evaluator(wider(whole).asInstanceOf[StructType])
  private val project: UnsafeProjection = {
    val attributes = toAttributes(whole)
    GenerateUnsafeProjection.generate(rules.wanted.map(f => attributes(whole.fieldIndex(f.name))), attributes)
  }

  /** The wanted fields of the record in [from, to); null if it is bad. */
  def row(bytes: Array[Byte], from: Int, to: Int): InternalRow = {
    val text = UTF8String.fromBytes(bytes, from, to - from)
    val row = if (text.isValid) parser.evaluate(text) else null
    if (row == null || !row.isNullAt(corrupt) || refused(row, text) || half(bytes, from, to)) null else project(row)
  }

  private def refused(row: InternalRow, text: UTF8String): Boolean =
    any(row, strange, Strange) || (any(row, large, Large) && !text.toLowerCase.contains(Infinite)) ||
      (exact.nonEmpty && hasComma(text) && any(asWritten(text), exact, Exact)) ||
      (unsigned.nonEmpty && any(asWritten(text), unsigned, Unsigned)) ||
      (late.nonEmpty && hasSeconds(text) && any(asWritten(text), late, Late)) ||
      (undated.nonEmpty && hasClock(text) && any(asWritten(text), undated, Undated))

  private def asWritten(text: UTF8String): InternalRow = written.evaluate(text)

  private def any(row: InternalRow, fields: Seq[(DataType, Int)], fault: Fault): Boolean =
    fields.exists { case (kind, at) => !row.isNullAt(at) && fault.in(row.get(at, kind), kind) }

  /** The fields that may have a fault. */
  private def places(fault: Fault): Seq[(DataType, Int)] =
    rules.schema.fields.toSeq.map(_.dataType).zipWithIndex.filter(each => fault.mayBeIn(each._1))

  private def evaluator(fields: StructType): JsonFields = {
    val given = rules.options.filterNot(each => SparkLines.Own(each._1.toLowerCase(java.util.Locale.ROOT)))
    val own = Map("mode" -> "PERMISSIVE", "columnNameOfCorruptRecord" -> SparkLines.Corrupt)
    JsonFields(given ++ own, fields, rules.zone)
  }
}

object SparkLines {
  val Corrupt = "_rs_corrupt"
  private val Own = Set("mode", "columnnameofcorruptrecord")
}
