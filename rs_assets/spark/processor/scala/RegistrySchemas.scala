package org.apache.spark.sql.rsassets

import java.nio.file.{FileAlreadyExistsException, Files, NoSuchFileException, Path, Paths}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.avro.Schema

/** The Avro schemas of a registry. */
class RegistrySchemas(registry: RegistryClient, folder: String)
    extends FetchedSchemas[Schema](registry, folder, SchemaKind.Avro) with WriterSchemas {
  override def headed: Boolean = true

  override protected def kept(name: String, text: String): String = text

  override protected def parsed(texts: Seq[String]): Schema = {
    val parser = new Schema.Parser()
    texts.map(parser.parse).last
  }
}

/**
 * The schemas of a registry, each asked for once and kept in `folder`, so that a batch that is read again needs no
 * registry, and gets the same answers: also that an id is unknown.
 *
 * `<id>.json` has the texts of the schemas that a schema refers to, and then its own, or else the reason why it cannot
 * be used. `registry/stored.py` removes reasons, between two batches.
 */
abstract class FetchedSchemas[S](registry: RegistryClient, folder: String, kind: SchemaKind) extends Serializable {
  /** What is kept of a schema that others refer to as `name`. */
  protected def kept(name: String, text: String): String

  /** The last of some schemas, each of which may refer to those before it. */
  protected def parsed(texts: Seq[String]): S

  def of(id: Int): Either[String, S] = {
    val place = (kind.code, folder, id)
    val known = FetchedSchemas.known.get(place)
    if (known != null) Right(known.asInstanceOf[S])
    else stored(id).getOrElse(asked(id)).map { schema =>
      FetchedSchemas.known.put(place, schema)
      schema
    }
  }

  private def asked(id: Int): Either[String, S] = FetchedSchemas.synchronized {
    stored(id).getOrElse {
      val found = registry.schemas(id, kind).map(_.map { case (name, text) => kept(name, text) })
      keep(id, found.flatMap(texts => usable(id, texts).map(_ => texts)))
      // Another process may have been first.
      stored(id).get
    }
  }

  private def usable(id: Int, texts: Seq[String]): Either[String, S] =
    try Right(parsed(texts))
    catch { case NonFatal(error) => Left(s"schema $id of the registry is not valid ${kind.name}: ${error.getMessage}") }

  private def stored(id: Int): Option[Either[String, S]] =
    try {
      val found = FetchedSchemas.json.readTree(Files.readString(file(id)))
      Some(
        if (found.isTextual) Left(found.textValue)
        else Right(parsed(found.elements.asScala.map(_.textValue).toSeq)))
    } catch {
      case _: NoSuchFileException => None
    }

  /** Writes the whole file, unless there is one. */
  private def keep(id: Int, answer: Either[String, Seq[String]]): Unit = {
    Files.createDirectories(file(id).getParent)
    val made = Files.createTempFile(file(id).getParent, ".", ".tmp")
    try {
      Files.write(made, FetchedSchemas.json.writeValueAsBytes(answer.fold(reason => reason, texts => texts.asJava)))
      Files.createLink(file(id), made)
    } catch {
      case _: FileAlreadyExistsException => ()
    } finally Files.deleteIfExists(made)
  }

  private def file(id: Int): Path = Paths.get(folder, s"$id.json")
}

object FetchedSchemas {
  private val json = new ObjectMapper
  private val known = new ConcurrentHashMap[(String, String, Int), Any]
}
