package org.apache.spark.sql.rsassets

import java.util.Base64

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.{AnyProto, ApiProto, DescriptorProtos, DurationProto, EmptyProto, FieldMaskProto}
import com.google.protobuf.{SourceContextProto, StructProto, TimestampProto, TypeProto, WrappersProto}
import com.google.protobuf.DescriptorProtos.{FileDescriptorProto, FileDescriptorSet}
import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor, FileDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type

/** What is wrong with a value or a type, in one sentence. */
class ProtobufFault(what: String) extends RuntimeException(what, null, false, false)

/** Message types of descriptors in base64. */
object ProtobufTypes {
  val Timestamp = "google.protobuf.Timestamp"
  // Messages of one field, which differ from the type of that field in that they may be absent.
  val Wrappers: Set[String] = Set("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
    .map(each => s"google.protobuf.${each}Value")
  // The files that protoc has itself.
  private val Known = Seq(
    AnyProto.getDescriptor, ApiProto.getDescriptor, DescriptorProtos.getDescriptor, DurationProto.getDescriptor,
    EmptyProto.getDescriptor, FieldMaskProto.getDescriptor, SourceContextProto.getDescriptor, StructProto.getDescriptor,
    TimestampProto.getDescriptor, TypeProto.getDescriptor, WrappersProto.getDescriptor)

  /** The message type `name` in a set of files, those first that others import. */
  def message(set: String, name: String): Descriptor = {
    val files = built(FileDescriptorSet.parseFrom(Base64.getDecoder.decode(set)).getFileList.asScala.toSeq)
    files.flatMap(_.getMessageTypes.asScala).flatMap(inside).find(_.getFullName == name)
      .getOrElse(throw new ProtobufFault(s"the descriptor has no message $name"))
  }

  /** The files, each of which may import those before it. */
  def built(files: Seq[FileDescriptorProto]): Seq[FileDescriptor] = {
    val known = mutable.HashMap.from(Known.map(file => file.getName -> file))
    files.map { file =>
      val imports = file.getDependencyList.asScala.flatMap(known.get)
      // A message of a file that is not there is not read; such files often have options only.
      val made = FileDescriptor.buildFrom(strict(file), imports.toArray, true)
      known(file.getName) = made
      made
    }
  }

  /** The message type at a path of indexes, each within the one before. */
  def at(file: FileDescriptor, path: Seq[Int]): Option[Descriptor] =
    path.tail.foldLeft(file.getMessageTypes.asScala.toIndexedSeq.lift(path.head)) { (found, index) =>
      found.flatMap(_.getNestedTypes.asScala.toIndexedSeq.lift(index))
    }

  /** The type of a field, for people. */
  def text(field: FieldDescriptor): String = {
    val one = field.getType match {
      case _ if field.isMapField => "map"
      case Type.MESSAGE | Type.GROUP => field.getMessageType.getFullName
      case Type.ENUM => field.getEnumType.getFullName
      case other => other.name.toLowerCase
    }
    if (field.isRepeated && !field.isMapField) s"repeated $one" else one
  }

  /** Texts of proto2 are UTF-8 too: otherwise Java replaces what is not. */
  private def strict(file: FileDescriptorProto): FileDescriptorProto =
    file.toBuilder.setOptions(file.getOptions.toBuilder.setJavaStringCheckUtf8(true)).build

  private def inside(message: Descriptor): Seq[Descriptor] =
    message +: message.getNestedTypes.asScala.toSeq.flatMap(inside)
}

/** The Protobuf files of a registry; what is kept of one is its descriptor in base64, under the name of its import. */
class ProtobufSchemas(registry: RegistryClient, folder: String)
    extends FetchedSchemas[FileDescriptor](registry, folder, SchemaKind.Protobuf) {
  override protected def kept(name: String, text: String): String = {
    val file =
      try FileDescriptorProto.parseFrom(Base64.getDecoder.decode(text.strip))
      catch {
        case NonFatal(_) =>
          throw RegistryClient.failure(
            "the schema registry answers ?format=serialized with the text of a file, not with its descriptor",
            "declare the message: descriptor=, message= and schema_id= of from_kafka, without registry=")
      }
    val named = if (name.isEmpty) file else file.toBuilder.setName(name).build
    Base64.getEncoder.encodeToString(named.toByteArray)
  }

  override protected def parsed(texts: Seq[String]): FileDescriptor =
    ProtobufTypes.built(texts.map(text => FileDescriptorProto.parseFrom(Base64.getDecoder.decode(text)))).last
}
