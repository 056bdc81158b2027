package org.apache.spark.sql.rsassets

import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, CodedOutputStream, DynamicMessage}
import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor, OneofDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types._

/** Makes Protobuf values of rows of `schema`, each after the bytes `header`. */
class ProtobufValues(schema: StructType, name: String, files: String, header: Array[Byte]) extends Serializable {
  @transient private lazy val message = ProtobufTypes.message(files, name)
  @transient private lazy val puts = ProtobufValues.puts(message, schema, "")

  /** The value of a row; the error of `FAULT` of `sink/records.py` if it has none. */
  def evaluate(row: InternalRow): Array[Byte] = {
    val made = ProtobufValues.filled(message, puts, row)
    val out = new Array[Byte](header.length + made.getSerializedSize)
    System.arraycopy(header, 0, out, 0, header.length)
    val rest = CodedOutputStream.newInstance(out, header.length, out.length - header.length)
    made.writeTo(rest)
    rest.flush()
    out
  }
}

object ProtobufValues {
  private type Put = (DynamicMessage.Builder, InternalRow) => Unit
  private type Value = Any => AnyRef
  private val Known = ObjectType(classOf[ProtobufValues])
  private val Micros = 1000000L
  private val Unsigned32 = (1L << 32) - 1

  /** A column of values for one of structs. */
  def column(rows: Column, schema: String, name: String, files: String, header: Array[Byte]): Column = {
    val made = new ProtobufValues(fields(schema), name, files, header)
    ExpressionUtils.column(
      Invoke(Literal.create(made, Known), "evaluate", BinaryType, Seq(ExpressionUtils.expression(rows))))
  }

  /** The reason why rows of `schema` cannot become values of a message; empty without one. */
  def refused(schema: String, name: String, files: String): String =
    try {
      puts(ProtobufTypes.message(files, name), fields(schema), "")
      ""
    } catch { case NonFatal(error) => String.valueOf(error.getMessage) }

  private def fields(schema: String): StructType = DataType.fromJson(schema).asInstanceOf[StructType]

  private def filled(message: Descriptor, puts: Array[Put], row: InternalRow): DynamicMessage = {
    val made = DynamicMessage.newBuilder(message)
    puts.foreach(put => put(made, row))
    made.buildPartial()
  }

  private def puts(message: Descriptor, schema: StructType, path: String): Array[Put] =
    schema.fields.zipWithIndex.map { case (from, place) =>
      val to = Option(message.findFieldByName(from.name))
        .getOrElse(throw new ProtobufFault(s"the message ${message.getFullName} has no field ${from.name}"))
      put(to, from.dataType, place, s"$path${from.name}")
    }

  /** A null leaves a field out, which is refused where a reader would get the default of its type instead. */
  private def put(to: FieldDescriptor, kind: DataType, place: Int, path: String): Put = {
    val set = whole(to, kind, path)
    val may = to.isRepeated || (to.hasPresence && !to.isRequired)
    val choice = to.getRealContainingOneof
    (made, row) =>
      if (!row.isNullAt(place)) {
        if (choice != null && made.hasOneof(choice)) throw fault(path, double(choice, made, to))
        set(made, row.get(place, kind))
      } else if (!may) throw fault(path, s"it is null, which the field ${to.getFullName} cannot be")
  }

  /** Of a oneof the last value that is set remains, and the others are lost. */
  private def double(choice: OneofDescriptor, made: DynamicMessage.Builder, to: FieldDescriptor): String = {
    val first = made.getOneofFieldDescriptor(choice).getName
    s"$first has a value too, and only one of the fields of ${choice.getFullName} may have one"
  }

  private def whole(to: FieldDescriptor, kind: DataType, path: String): (DynamicMessage.Builder, Any) => Unit =
    kind match {
      case MapType(key, value, _) if to.isMapField => entries(to, key, value, path)
      case ArrayType(element, _) if to.isRepeated && !to.isMapField =>
        val one = single(to, element, path)
        (made, list) =>
          each(list.asInstanceOf[ArrayData], element, path)(value => made.addRepeatedField(to, one(value)))
      case _ if !to.isRepeated =>
        val one = single(to, kind, path)
        (made, value) => made.setField(to, one(value))
      case _ => throw unwritable(to, kind, path)
    }

  private def entries(
      to: FieldDescriptor,
      key: DataType,
      value: DataType,
      path: String): (DynamicMessage.Builder, Any) => Unit = {
    val entry = to.getMessageType
    val (keys, values) = (entry.findFieldByNumber(1), entry.findFieldByNumber(2))
    val (keyOf, valueOf) = (single(keys, key, path), single(values, value, path))
    (made, map) => {
      val data = map.asInstanceOf[MapData]
      val all = data.keyArray().toArray[Any](key)
      var place = 0
      each(data.valueArray(), value, path) { found =>
        val pair = DynamicMessage.newBuilder(entry)
        pair.setField(keys, keyOf(all(place))).setField(values, valueOf(found))
        made.addRepeatedField(to, pair.build())
        place += 1
      }
    }
  }

  private def each(list: ArrayData, kind: DataType, path: String)(use: Any => Unit): Unit =
    (0 until list.numElements()).foreach { place =>
      if (list.isNullAt(place)) throw fault(path, "a value in it is null, which Protobuf does not have")
      use(list.get(place, kind))
    }

  private def single(to: FieldDescriptor, kind: DataType, path: String): Value = (to.getType, kind) match {
    case (Type.BOOL, BooleanType) | (Type.FLOAT, FloatType) | (Type.DOUBLE, DoubleType) => _.asInstanceOf[AnyRef]
    case (Type.DOUBLE, FloatType) => value => Double.box(value.asInstanceOf[Float].toDouble)
    case (Type.ENUM, _: StringType) => value => named(to, value.toString, path)
    case (Type.ENUM, _: IntegralType) => value => numbered(to, whole(value), path)
    case (_, _: IntegralType) => integer(to, kind, path)
    case (Type.UINT64 | Type.FIXED64, decimal: DecimalType) if decimal.scale == 0 =>
      value => large(value.asInstanceOf[Decimal].toJavaBigDecimal.toBigInteger, path)
    case (Type.STRING, _: StringType) => _.toString
    case (Type.BYTES, BinaryType) => value => ByteString.copyFrom(value.asInstanceOf[Array[Byte]])
    case (Type.MESSAGE | Type.GROUP, _) => nested(to, kind, path)
    case _ => throw unwritable(to, kind, path)
  }

  private def integer(to: FieldDescriptor, kind: DataType, path: String): Value = {
    def small(least: Long, most: Long)(value: Any): AnyRef = Int.box(within(whole(value), least, most, to, path).toInt)
    to.getType match {
      case Type.INT32 | Type.SINT32 | Type.SFIXED32 => small(Int.MinValue, Int.MaxValue)
      case Type.UINT32 | Type.FIXED32 => small(0, Unsigned32)
      case Type.INT64 | Type.SINT64 | Type.SFIXED64 => value => Long.box(whole(value))
      case Type.UINT64 | Type.FIXED64 => value => Long.box(within(whole(value), 0, Long.MaxValue, to, path))
      case Type.MESSAGE => nested(to, kind, path)
      case _ => throw unwritable(to, kind, path)
    }
  }

  private def nested(to: FieldDescriptor, kind: DataType, path: String): Value = {
    val message = to.getMessageType
    (message.getFullName, kind) match {
      case (ProtobufTypes.Timestamp, TimestampType) => time(message)
      case (_, struct: StructType) =>
        val inside = puts(message, struct, s"$path.")
        value => filled(message, inside, value.asInstanceOf[InternalRow])
      case (name, _) if ProtobufTypes.Wrappers(name) =>
        val wrapped = message.findFieldByNumber(1)
        val one = single(wrapped, kind, path)
        value => DynamicMessage.newBuilder(message).setField(wrapped, one(value)).build()
      case _ => throw unwritable(to, kind, path)
    }
  }

  private def time(message: Descriptor): Value = {
    val (seconds, nanos) = (message.findFieldByNumber(1), message.findFieldByNumber(2))
    value => {
      val micros = value.asInstanceOf[Long]
      DynamicMessage.newBuilder(message)
        .setField(seconds, Long.box(Math.floorDiv(micros, Micros)))
        .setField(nanos, Int.box((Math.floorMod(micros, Micros) * 1000).toInt))
        .build()
    }
  }

  private def whole(value: Any): Long = value.asInstanceOf[Number].longValue

  private def within(value: Long, least: Long, most: Long, to: FieldDescriptor, path: String): Long =
    if (value >= least && value <= most) value
    else throw fault(path, s"$value is not a number of ${ProtobufTypes.text(to)}")

  private def large(value: java.math.BigInteger, path: String): AnyRef =
    if (value.signum >= 0 && value.bitLength <= 64) Long.box(value.longValue)
    else throw fault(path, s"$value is not a number of uint64")

  private def named(to: FieldDescriptor, name: String, path: String): AnyRef =
    Option(to.getEnumType.findValueByName(name))
      .getOrElse(throw fault(path, s"$name is not a value of ${to.getEnumType.getFullName}"))

  private def numbered(to: FieldDescriptor, number: Long, path: String): AnyRef =
    Option(to.getEnumType.findValueByNumber(number.toInt)).filter(_ => number.isValidInt)
      .getOrElse(throw fault(path, s"$number is not a value of ${to.getEnumType.getFullName}"))

  private def unwritable(to: FieldDescriptor, kind: DataType, path: String): ProtobufFault =
    new ProtobufFault(s"the field $path is ${kind.catalogString}, and ${ProtobufTypes.text(to)} in the message")

  private def fault(path: String, what: String): IllegalArgumentException =
    new IllegalArgumentException(s"<<record: $path|$what>>")
}
