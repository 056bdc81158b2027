package org.apache.spark.sql.rsassets

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.{JsonFactory, JsonParser}
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.catalyst.json.{CreateJacksonParser, JacksonParser, JSONOptions}
import org.apache.spark.sql.catalyst.util.FailureSafeParser
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The fields of a text of JSON as Spark's `from_json` makes them, but with the numbers, lists and objects of a field of
 * text as they are written: `from_json` makes 1.5 of 1.50, and rounds a number to a double.
 *
 * The option `columnNameOfCorruptRecord` names a field of the schema.
 */
case class JsonFields(options: Map[String, String], schema: StructType, zone: String) {
  import JsonFields._
  @transient private lazy val parser = {
    val given = new JSONOptions(options, zone, SparkLines.Corrupt)
    val corrupt = given.columnNameOfCorruptRecord
    val fields = new JacksonParser(StructType(schema.filterNot(_.name == corrupt)), given, allowArrayAsStructs = false)
    new FailureSafeParser[UTF8String](fields.parse(_, created, identity[UTF8String]), given.parseMode, schema, corrupt)
  }

  /** The row of a text; null for null. */
  def evaluate(text: UTF8String): InternalRow =
    if (text == null) null else parser.parse(text).nextOption().orNull
}

object JsonFields {
  private val Known = ObjectType(classOf[JsonFields])
  // Bytes in which another encoding shows, and the first one of UTF-8's own mark.
  private val Shown = 4
  private val Mark = 0xef.toByte

  /** A column of rows for one of texts. */
  def column(text: Column, schema: String, options: util.Map[String, String]): Column = {
    val fields = DataType.fromJson(schema).asInstanceOf[StructType].asNullable
    val made = JsonFields(options.asScala.toMap, fields, SQLConf.get.sessionLocalTimeZone)
    val texts = Seq(ExpressionUtils.expression(text))
    ExpressionUtils.column(Invoke(Literal.create(made, Known), "evaluate", fields, texts))
  }

  /** What is written can be seen in bytes only; Jackson takes some of them for another encoding, which no text has. */
  private def created(factory: JsonFactory, text: UTF8String): JsonParser = {
    val bytes = text.getBytes
    val other = bytes.startsWith(Array(Mark)) || bytes.take(Shown).contains(0)
    if (other) CreateJacksonParser.utf8String(factory, text) else factory.createParser(bytes)
  }
}
