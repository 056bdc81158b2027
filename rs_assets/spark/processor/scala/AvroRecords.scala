package org.apache.spark.sql.rsassets

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.avro.Schema
import org.apache.spark.sql.{Column, Row, functions}
import org.apache.spark.sql.api.java.UDF1
import org.apache.spark.sql.types.{BinaryType, StringType, StructField, StructType}

/**
 * Makes a binary column a column of Avro values of one schema, the reader's: a struct of `value` and `reason`.
 *
 * Each value is decoded completely, by the schema that it was written with. One that cannot be read has a reason
 * instead of a value. Null stays null.
 */
object AvroRecords {
  private val Result = StructType(Seq(StructField("value", BinaryType), StructField("reason", StringType)))

  /** Values without a header, all written with the schema `reader`. */
  def plain(values: Column, reader: String): Column = of(values, reader, new OneSchema(reader, None))

  /** Values with the header of a schema registry, all written with the schema `reader`, whose id is `id`. */
  def declared(values: Column, reader: String, id: Int): Column = of(values, reader, new OneSchema(reader, Some(id)))

  /** Values with the header of a schema registry, whose id leads to their schema in `schemas`. */
  def registered(values: Column, reader: String, schemas: RegistrySchemas): Column = of(values, reader, schemas)

  private def of(values: Column, reader: String, writers: WriterSchemas): Column =
    functions.udf(new AvroRecords(reader, writers), Result).withName("avro_value").apply(values)
}

/** The schemas of writers by id; an id without a usable schema has a reason. */
trait WriterSchemas extends Serializable {
  def headed: Boolean
  def of(id: Int): Either[String, Schema]
}

/** One schema, with the id that headers must have; without an id values have no header. */
class OneSchema(text: String, id: Option[Int]) extends WriterSchemas {
  @transient private lazy val schema = new Schema.Parser().parse(text)

  override def headed: Boolean = id.isDefined

  override def of(found: Int): Either[String, Schema] =
    if (id.forall(_ == found)) Right(schema) else Left(s"its schema id is $found, and the declared one is ${id.get}")
}

private class AvroRecords(reader: String, writers: WriterSchemas) extends UDF1[Array[Byte], Row] {
  // A decoder has buffers, and Spark may share this object between threads.
  @transient private lazy val decoders =
    ThreadLocal.withInitial[AvroDecoders](() => new AvroDecoders(new Schema.Parser().parse(reader), writers))

  override def call(value: Array[Byte]): Row =
    if (value == null) null else decoders.get.decoded(value).fold(Row(null, _), Row(_, null))
}

/** The decoders of one thread, one for each schema id. */
private class AvroDecoders(reader: Schema, writers: WriterSchemas) {
  // A zero, and four bytes of the id.
  private val header = if (writers.headed) 5 else 0
  private val made = mutable.HashMap.empty[Int, Either[String, AvroDecoder]]

  def decoded(value: Array[Byte]): Either[String, Array[Byte]] =
    if (header > 0 && (value.length < header || value(0) != 0)) Left("no header of a schema registry")
    else decoder(if (header > 0) ByteBuffer.wrap(value, 1, 4).getInt else 0).flatMap(_.decoded(value, header))

  private def decoder(id: Int): Either[String, AvroDecoder] =
    made.getOrElseUpdate(id, writers.of(id).flatMap(writer => AvroDecoder.of(id, writer, reader)))
}
