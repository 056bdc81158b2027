package org.apache.spark.sql.rsassets

import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type
import org.apache.spark.sql.types._

/** Whether values of one message type can be read as another, whose fields have the same numbers. */
object ProtobufRules {
  // Types whose values have the same bytes, and mean the same as the type of the key.
  private val Same: Map[Type, Set[Type]] = Map(
    Type.INT64 -> Set(Type.INT32, Type.UINT32),
    Type.INT32 -> Set(Type.ENUM),
    Type.ENUM -> Set(Type.INT32),
    Type.UINT64 -> Set(Type.UINT32),
    Type.SINT64 -> Set(Type.SINT32),
    Type.BYTES -> Set(Type.STRING))

  /** The reason why the fields `used` of `writer` cannot be read as those of `reader`. */
  def difference(writer: Descriptor, reader: Descriptor, used: StructType): Option[String] =
    different(writer, reader, used, "")

  private def different(writer: Descriptor, reader: Descriptor, used: StructType, path: String): Option[String] =
    used.fields.iterator.flatMap { each =>
      for {
        to <- Option(reader.findFieldByName(each.name))
        from <- Option(writer.findFieldByNumber(to.getNumber))
        reason <- different(from, to, each.dataType, s"$path${each.name}")
      } yield reason
    }.nextOption()

  private def different(from: FieldDescriptor, to: FieldDescriptor, kind: DataType, path: String): Option[String] =
    if ((from.isRepeated && !to.isRepeated) || !comparable(from, to))
      Some(s"the field $path was written as ${ProtobufTypes.text(from)}, not as ${ProtobufTypes.text(to)}")
    else inner(kind).flatMap(each => different(from.getMessageType, to.getMessageType, each, s"$path."))

  private def comparable(from: FieldDescriptor, to: FieldDescriptor): Boolean =
    from.isMapField == to.isMapField &&
      (from.getType == to.getType || Same.getOrElse(to.getType, Set.empty[Type])(from.getType))

  /** The fields of the messages in a field; None if it has none, or if they are one value. */
  private def inner(kind: DataType): Option[StructType] = kind match {
    case struct: StructType => Some(struct)
    case ArrayType(struct: StructType, _) => Some(struct)
    case MapType(key, value, _) => Some(StructType(Seq(StructField("key", key), StructField("value", value))))
    case _ => None
  }
}
