package org.apache.spark.sql.rsassets

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Single lines by the evaluator of Spark's own `from_json`, which a second look at a batch uses as well. */
final class SparkLines(rules: JsonRules) {
  private val whole = StructType(rules.schema.fields).asNullable.add(SparkLines.Corrupt, StringType)
  private val corrupt = whole.length - 1
  private val judged = rules.schema.fields.zipWithIndex.filter(each => SparkLines.judged(each._1.dataType))
  private val parser = {
    val given = rules.options.filterNot(each => SparkLines.Own(each._1.toLowerCase(java.util.Locale.ROOT)))
    val own = Map("mode" -> "PERMISSIVE", "columnNameOfCorruptRecord" -> SparkLines.Corrupt)
    new JsonToStructsEvaluator(given ++ own, whole, SparkLines.Corrupt, Some(rules.zone), false)
  }
  private val project: UnsafeProjection = {
    val attributes = toAttributes(whole)
    GenerateUnsafeProjection.generate(rules.wanted.map(f => attributes(whole.fieldIndex(f.name))), attributes)
  }

  /** The wanted fields of the record in [from, to); null if it is bad. */
  def row(bytes: Array[Byte], from: Int, to: Int): InternalRow = {
    val text = UTF8String.fromBytes(bytes, from, to - from)
    val row = if (text.isValid) parser.evaluate(text).asInstanceOf[InternalRow] else null
    if (row == null || !row.isNullAt(corrupt) || refused(row)) null else project(row)
  }

  private def refused(row: InternalRow): Boolean =
    judged.exists { case (StructField(_, kind, _, _), at) =>
      !row.isNullAt(at) && SparkLines.refused(row.get(at, kind), kind)
    }
}

object SparkLines {
  val Corrupt = "_rs_corrupt"
  private val Own = Set("mode", "columnnameofcorruptrecord")
  // The first and the last time and day that Python has: of the years 1 and 9999.
  private val Times = (-62135596800000000L, 253402300799999999L)
  private val Days = (-719162, 2932896)

  /** Whether values of a kind are looked at: times and maps, and what has some. */
  private def judged(kind: DataType): Boolean = kind match {
    case TimestampType | DateType | _: MapType => true
    case StructType(fields) => fields.exists(field => judged(field.dataType))
    case ArrayType(of, _) => judged(of)
    case _ => false
  }

  /** Whether a value is, or has, what Python cannot represent: a time, or a map with a key twice. */
  private def refused(value: Any, kind: DataType): Boolean = (value, kind) match {
    case (time: Long, TimestampType) => time < Times._1 || time > Times._2
    case (day: Int, DateType) => day < Days._1 || day > Days._2
    case (row: InternalRow, StructType(fields)) =>
      fields.zipWithIndex.exists { case (f, at) => !row.isNullAt(at) && refused(row.get(at, f.dataType), f.dataType) }
    case (values: ArrayData, ArrayType(of, _)) => anyRefused(values, of)
    case (values: MapData, MapType(key, of, _)) =>
      twice(values.keyArray, key) || anyRefused(values.keyArray, key) || anyRefused(values.valueArray, of)
    case _ => false
  }

  private def anyRefused(values: ArrayData, kind: DataType): Boolean =
    judged(kind) && (0 until values.numElements).exists(at => !values.isNullAt(at) && refused(values.get(at, kind), kind))

  private def twice(keys: ArrayData, kind: DataType): Boolean =
    (0 until keys.numElements).map(at => keys.get(at, kind)).toSet.size < keys.numElements
}
