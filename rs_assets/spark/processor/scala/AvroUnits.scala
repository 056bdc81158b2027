package org.apache.spark.sql.rsassets

import java.lang.{Long => JavaLong}

import scala.jdk.CollectionConverters._

import org.apache.avro.{AvroTypeException, Conversion, LogicalType, LogicalTypes, Schema}
import org.apache.avro.Schema.Type
import org.apache.avro.generic.GenericData

/**
 * What Avro's schema resolution leaves out: it reads a number of milliseconds as one of microseconds, and a decimal of
 * two places as one of four. Here a time gets the reader's unit if that is finer, and other differences are refused.
 */
object AvroUnits {
  private val Factors: Map[(String, String), Long] = Map(
    ("timestamp-millis", "timestamp-micros") -> 1000L,
    ("local-timestamp-millis", "local-timestamp-micros") -> 1000L,
    ("time-millis", "time-micros") -> 1000L)
  private val Units = Set(
    "date", "decimal", "duration", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros",
    "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos")
  // The types whose values Avro reads as the type of the key.
  private val Promoted: Map[Type, Set[Type]] = Map(
    Type.LONG -> Set(Type.INT),
    Type.FLOAT -> Set(Type.INT, Type.LONG),
    Type.DOUBLE -> Set(Type.INT, Type.LONG, Type.FLOAT),
    Type.STRING -> Set(Type.BYTES),
    Type.BYTES -> Set(Type.STRING))

  /** Generic data that applies the factors of `readable`. */
  val data: GenericData = {
    // Avro's fast reader fills maps by itself: AvroDecoder would not see a key that comes twice.
    val made = new GenericData().setFastReaderEnabled(false)
    Factors.values.toSet[Long].foreach(factor => made.addLogicalTypeConversion(new Times(factor)))
    made
  }

  /** `reader` for values of `writer`, with a factor at each time in another unit; AvroTypeException if one has none. */
  def readable(writer: Schema, reader: Schema): Schema = made(branches(writer), reader, "")

  private def branches(schema: Schema): Seq[Schema] = if (schema.isUnion) schema.getTypes.asScala.toSeq else Seq(schema)

  private def made(writers: Seq[Schema], reader: Schema, path: String): Schema = reader.getType match {
    case Type.UNION =>
      val types = reader.getTypes.asScala.toSeq
      Schema.createUnion(types.map(each => made(readAs(writers, each, types), each, path)).asJava)
    case Type.RECORD => record(writers, reader, path)
    case Type.ARRAY =>
      Schema.createArray(made(parts(writers, Type.ARRAY, _.getElementType), reader.getElementType, path))
    case Type.MAP => Schema.createMap(made(parts(writers, Type.MAP, _.getValueType), reader.getValueType, path))
    case _ => leaf(writers, reader, path)
  }

  /** The branches of a writer that are read as the branch `reader` of a union; one of the same type comes first. */
  private def readAs(writers: Seq[Schema], reader: Schema, all: Seq[Schema]): Seq[Schema] =
    writers.filter(each => each.getType == reader.getType || !all.exists(_.getType == each.getType))

  private def parts(writers: Seq[Schema], kind: Type, part: Schema => Schema): Seq[Schema] =
    writers.filter(_.getType == kind).flatMap(each => branches(part(each)))

  private def record(writers: Seq[Schema], reader: Schema, path: String): Schema = {
    val records = writers.filter(_.getType == Type.RECORD)
    val named = records.filter(_.getFullName == reader.getFullName)
    val from = if (named.isEmpty) records else named
    val fields = reader.getFields.asScala.map { field =>
      val found = from.flatMap(each => Option(each.getField(field.name))).flatMap(each => branches(each.schema))
      new Schema.Field(field, if (found.isEmpty) field.schema else made(found, field.schema, s"$path${field.name}."))
    }
    val copy = Schema.createRecord(reader.getName, reader.getDoc, reader.getNamespace, reader.isError)
    copy.setFields(fields.asJava)
    copy
  }

  private def leaf(writers: Seq[Schema], reader: Schema, path: String): Schema = {
    val from = writers.filter { each =>
      each.getType == reader.getType || Promoted.getOrElse(reader.getType, Set.empty[Type])(each.getType)
    }
    from.map(factor(_, reader, path.stripSuffix("."))).distinct match {
      case Seq() | Seq(1L) => reader
      case Seq(factor) => new LogicalType(Times.name(factor)).addToSchema(Schema.create(Type.LONG))
      case _ => throw new AvroTypeException(s"the field ${path.stripSuffix(".")} has times of several units")
    }
  }

  private def factor(writer: Schema, reader: Schema, path: String): Long = {
    val (from, to) = (unit(writer), unit(reader))
    (from, to) match {
      // A number without a unit was asked for.
      case (_, None) => 1L
      case (Some(a: LogicalTypes.Decimal), Some(b: LogicalTypes.Decimal))
          if a.getScale == b.getScale && a.getPrecision <= b.getPrecision => 1L
      case (Some(a), Some(b)) if a.getName == b.getName && a.getName != "decimal" => 1L
      case (Some(a), Some(b)) if Factors.contains((a.getName, b.getName)) => Factors((a.getName, b.getName))
      case _ => throw new AvroTypeException(s"the field $path was written as ${text(writer)}, not as ${text(reader)}")
    }
  }

  private def unit(schema: Schema): Option[LogicalType] =
    Option(schema.getLogicalType).filter(each => Units(each.getName))

  private def text(schema: Schema): String = unit(schema) match {
    case Some(decimal: LogicalTypes.Decimal) => s"decimal(${decimal.getPrecision},${decimal.getScale})"
    case Some(other) => other.getName
    case None => schema.getType.getName
  }

  private class Times(factor: Long) extends Conversion[JavaLong] {
    override def getConvertedType: Class[JavaLong] = classOf[JavaLong]
    override def getLogicalTypeName: String = Times.name(factor)
    override def fromLong(value: JavaLong, schema: Schema, kind: LogicalType): JavaLong =
      Math.multiplyExact(value.longValue, factor)
  }

  private object Times {
    def name(factor: Long): String = s"rs-times-$factor"
  }
}
