package org.apache.spark.sql.rsassets

import java.util

import scala.jdk.CollectionConverters._

import com.google.protobuf.{ByteString, DynamicMessage, InvalidProtocolBufferException, Message}
import com.google.protobuf.Descriptors.{Descriptor, EnumValueDescriptor, FieldDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Makes rows of values of the type `message`. */
class ProtobufReader(val message: Descriptor, gets: Array[ProtobufReader.Get]) {
  /** The row of the value in `bytes` after `from`, or the reason why it cannot be read. */
  def row(bytes: Array[Byte], from: Int): Either[String, InternalRow] =
    try {
      val made = DynamicMessage.newBuilder(message).mergeFrom(bytes, from, bytes.length - from)
      if (made.isInitialized) Right(ProtobufReader.row(made.buildPartial(), gets))
      else Left("malformed Protobuf: a required field is missing")
    } catch {
      case fault: ProtobufFault => Left(fault.getMessage)
      case _: InvalidProtocolBufferException => Left("malformed Protobuf")
    }
}

object ProtobufReader {
  private[rsassets] type Get = Message => Any
  private type Value = Any => Any
  private val Micros = 1000000L
  // The digits of the largest unsigned number of 64 bits.
  private val Digits = 20

  /** The reader of `message` as rows of `schema`, fields by name; a reason if a field has another type. */
  def of(message: Descriptor, schema: StructType): Either[String, ProtobufReader] =
    try Right(new ProtobufReader(message, gets(message, schema, "")))
    catch { case fault: ProtobufFault => Left(fault.getMessage) }

  private def row(message: Message, gets: Array[Get]): InternalRow =
    new GenericInternalRow(gets.map(get => get(message)))

  private def gets(message: Descriptor, schema: StructType, path: String): Array[Get] = schema.fields.map { wanted =>
    Option(message.findFieldByName(wanted.name)) match {
      case Some(field) => checked(field, get(field, wanted.dataType, s"$path${wanted.name}"), s"$path${wanted.name}")
      case None => (_: Message) => null
    }
  }

  /**
   * A number of the field whose bytes are those of another kind of type is unknown to Protobuf, so the field would have
   * its default. So is a value without a name of an enum of proto2: that is as if it were absent.
   */
  private def checked(field: FieldDescriptor, get: Get, path: String): Get =
    if (ofEnum(field)) get
    else message => {
      if (message.getUnknownFields.hasField(field.getNumber))
        throw new ProtobufFault(s"the field $path was not written as ${ProtobufTypes.text(field)}")
      get(message)
    }

  private def ofEnum(field: FieldDescriptor): Boolean =
    field.getType == Type.ENUM || (field.isMapField && ofEnum(field.getMessageType.findFieldByNumber(2)))

  /** The value of a field; null if it is absent, and that is not just another form of its default. */
  private def get(field: FieldDescriptor, kind: DataType, path: String): Get = {
    val value = whole(field, kind, path)
    if (field.isRepeated || field.hasDefaultValue || !field.hasPresence) message => value(message.getField(field))
    else message => if (message.hasField(field)) value(message.getField(field)) else null
  }

  private def whole(field: FieldDescriptor, kind: DataType, path: String): Value = kind match {
    case MapType(key, value, _) if field.isMapField => entries(field.getMessageType, key, value, path)
    case ArrayType(element, _) if field.isRepeated && !field.isMapField =>
      val one = single(field, element, path)
      list => new GenericArrayData(list.asInstanceOf[util.List[Any]].asScala.map(one).toArray[Any])
    case _ if !field.isRepeated => single(field, kind, path)
    case _ => throw unreadable(field, kind, path)
  }

  /** Of a key that comes again the last value counts, as everywhere in Protobuf. */
  private def entries(entry: Descriptor, key: DataType, value: DataType, path: String): Value = {
    val (keys, values) = (entry.findFieldByNumber(1), entry.findFieldByNumber(2))
    val (keyOf, valueOf) = (single(keys, key, s"$path.key"), single(values, value, s"$path.value"))
    list => {
      val made = new util.LinkedHashMap[Any, Any]
      list.asInstanceOf[util.List[Message]].forEach { each =>
        made.put(keyOf(each.getField(keys)), valueOf(each.getField(values)))
      }
      val (all, of) = (made.keySet.asScala.toArray[Any], made.values.asScala.toArray[Any])
      new ArrayBasedMapData(new GenericArrayData(all), new GenericArrayData(of))
    }
  }

  private def single(field: FieldDescriptor, kind: DataType, path: String): Value = (field.getType, kind) match {
    case (Type.BOOL, BooleanType) | (Type.FLOAT, FloatType) | (Type.DOUBLE, DoubleType) => identity
    case (Type.FLOAT, DoubleType) => _.asInstanceOf[Float].toDouble
    case (Type.INT32 | Type.SINT32 | Type.SFIXED32, IntegerType) => identity
    case (Type.INT32 | Type.SINT32 | Type.SFIXED32, LongType) => _.asInstanceOf[Int].toLong
    case (Type.UINT32 | Type.FIXED32, LongType) => value => Integer.toUnsignedLong(value.asInstanceOf[Int])
    case (Type.INT64 | Type.SINT64 | Type.SFIXED64, LongType) => identity
    case (Type.UINT64 | Type.FIXED64, LongType) => value => small(value.asInstanceOf[Long], path)
    case (Type.UINT64 | Type.FIXED64, decimal: DecimalType) if decimal.precision - decimal.scale >= Digits =>
      value => unsigned(value.asInstanceOf[Long], decimal)
    case (Type.STRING, _: StringType) => value => UTF8String.fromString(value.asInstanceOf[String])
    case (Type.BYTES, BinaryType) => _.asInstanceOf[ByteString].toByteArray
    case (Type.ENUM, _: StringType) => value => name(value.asInstanceOf[EnumValueDescriptor])
    case (Type.ENUM, IntegerType) => _.asInstanceOf[EnumValueDescriptor].getNumber
    case (Type.MESSAGE | Type.GROUP, _) => nested(field, kind, path)
    case _ => throw unreadable(field, kind, path)
  }

  private def nested(field: FieldDescriptor, kind: DataType, path: String): Value = {
    val message = field.getMessageType
    (message.getFullName, kind) match {
      case (ProtobufTypes.Timestamp, TimestampType) => time(message, path)
      case (_, struct: StructType) =>
        val inside = gets(message, struct, s"$path.")
        value => row(value.asInstanceOf[Message], inside)
      case (name, _) if ProtobufTypes.Wrappers(name) =>
        val wrapped = message.findFieldByNumber(1)
        val one = single(wrapped, kind, path)
        value => one(value.asInstanceOf[Message].getField(wrapped))
      case _ => throw unreadable(field, kind, path)
    }
  }

  private def time(message: Descriptor, path: String): Value = {
    val (seconds, nanos) = (message.findFieldByNumber(1), message.findFieldByNumber(2))
    value => {
      val time = value.asInstanceOf[Message]
      val (whole, rest) = (time.getField(seconds).asInstanceOf[Long], time.getField(nanos).asInstanceOf[Int])
      try Math.addExact(Math.multiplyExact(whole, Micros), Math.floorDiv(rest, 1000).toLong)
      catch { case _: ArithmeticException => throw new ProtobufFault(s"$path: not in the years 1 to 9999 of UTC") }
    }
  }

  private def small(value: Long, path: String): Long =
    if (value >= 0) value
    else throw new ProtobufFault(s"$path: ${java.lang.Long.toUnsignedString(value)} is too large for bigint")

  private def unsigned(value: Long, kind: DecimalType): Decimal =
    Decimal(BigDecimal(java.lang.Long.toUnsignedString(value)), kind.precision, kind.scale)

  /** The name of a value; its number if the schema has no name for it, as in Protobuf's own JSON. */
  private def name(value: EnumValueDescriptor): UTF8String =
    UTF8String.fromString(if (value.getIndex < 0) value.getNumber.toString else value.getName)

  private def unreadable(field: FieldDescriptor, kind: DataType, path: String): ProtobufFault =
    new ProtobufFault(s"the field $path is ${ProtobufTypes.text(field)}, not ${kind.catalogString}")
}
