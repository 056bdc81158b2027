package org.apache.spark.sql.rsassets

import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import com.google.protobuf.CodedInputStream
import com.google.protobuf.Descriptors.Descriptor
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What a reader declares of its messages: a type in a set of files, either of which may be empty. */
case class DeclaredMessage(name: String, files: String)

/**
 * Makes rows of `schema` of Protobuf values: structs of `row` and `reason`, one of which is null.
 *
 * With `schemas` a value has the header of a registry, which leads to the message type that it was written with. Its
 * fields are read by their numbers, as those of the declared files, or without files by their names. Without `schemas`
 * values are of the declared type, and have a header with `id` unless that is negative.
 */
class ProtobufRecords(schema: StructType, declared: DeclaredMessage, id: Int, schemas: ProtobufSchemas)
    extends Serializable {
  import ProtobufRecords._
  @transient private lazy val own: Option[Descriptor] =
    Option(declared.files).filter(_.nonEmpty).map(ProtobufTypes.message(_, declared.name))
  @transient private lazy val ownReader: Either[String, ProtobufReader] = ProtobufReader.of(own.get, schema)
  @transient private lazy val readers = new ConcurrentHashMap[(Int, Seq[Int]), Either[String, ProtobufReader]]

  /** The struct of a value; null for null. */
  def evaluate(value: Array[Byte]): InternalRow =
    if (value == null) null
    else read(value).fold(reason => InternalRow(null, UTF8String.fromString(reason)), row => InternalRow(row, null))

  private def read(value: Array[Byte]): Either[String, InternalRow] =
    if (schemas == null && id < 0) ownReader.flatMap(_.row(value, 0))
    else for { header <- headerOf(value); reader <- readerOf(header); row <- reader.row(value, header.from) } yield row

  private def readerOf(header: Header): Either[String, ProtobufReader] =
    if (schemas != null) readers.computeIfAbsent((header.id, header.path), _ => resolved(header))
    else if (header.id == id) ownReader
    else Left(s"its schema id is ${header.id}, and the declared one is $id")

  private def resolved(header: Header): Either[String, ProtobufReader] =
    for {
      file <- schemas.of(header.id)
      writer <- ProtobufTypes.at(file, header.path)
        .toRight(s"schema ${header.id} of the registry has no message ${header.path.mkString(".")}")
      _ <- if (declared.name.isEmpty || declared.name == writer.getFullName) Right(())
        else Left(s"it is a ${writer.getFullName}, not a ${declared.name}")
      reader <- readable(writer).left.map(why => s"schema ${header.id} cannot be read as the declared one: $why")
    } yield reader

  private def readable(writer: Descriptor): Either[String, ProtobufReader] = own match {
    case Some(reader) => ProtobufRules.difference(writer, reader, schema).toLeft(()).flatMap(_ => ownReader)
    case None => ProtobufReader.of(writer, schema)
  }
}

object ProtobufRecords {
  private val Known = ObjectType(classOf[ProtobufRecords])
  // A zero, and four bytes of the id.
  private val Fixed = 5
  // Of messages within messages.
  private val Deepest = 100

  private case class Header(id: Int, path: Seq[Int], from: Int)

  /** A column of structs for one of values; `id` is -1 and `schemas` is null if there are none. */
  def column(
      values: Column,
      schema: String,
      name: String,
      files: String,
      id: Int,
      schemas: ProtobufSchemas): Column = {
    val row = fields(schema)
    val made = new ProtobufRecords(row, DeclaredMessage(name, files), id, schemas)
    val result = StructType(Seq(StructField("row", row), StructField("reason", StringType)))
    ExpressionUtils.column(
      Invoke(Literal.create(made, Known), "evaluate", result, Seq(ExpressionUtils.expression(values))))
  }

  /** The reason why no value of a declared message becomes a row of `schema`; empty without one. */
  def refused(schema: String, name: String, files: String): String =
    try ProtobufReader.of(ProtobufTypes.message(files, name), fields(schema)).fold(identity, _ => "")
    catch { case NonFatal(error) => String.valueOf(error.getMessage) }

  private def fields(schema: String): StructType = DataType.fromJson(schema).asInstanceOf[StructType].asNullable

  /** The id and the path of indexes at the beginning of a value; no indexes are the first message. */
  private def headerOf(value: Array[Byte]): Either[String, Header] =
    if (value.length <= Fixed || value(0) != 0) Left("no header of a schema registry")
    else
      try {
        val rest = CodedInputStream.newInstance(value, Fixed, value.length - Fixed)
        val count = rest.readSInt32()
        require(count >= 0 && count <= Deepest)
        val path = if (count == 0) Seq(0) else Seq.fill(count)(rest.readSInt32())
        Right(Header(ByteBuffer.wrap(value, 1, 4).getInt, path, Fixed + rest.getTotalBytesRead))
      } catch { case NonFatal(_) => Left("no header of a schema registry") }
}
