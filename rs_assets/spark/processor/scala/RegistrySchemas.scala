package org.apache.spark.sql.rsassets

import java.nio.file.{FileAlreadyExistsException, Files, NoSuchFileException, Path, Paths}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.avro.Schema

/**
 * The schemas of a registry, each asked for once and kept in `folder`, so that a batch that is read again needs no
 * registry, and gets the same answers: also that an id is unknown.
 *
 * `<id>.json` has the texts of the schemas that a schema refers to, and then its own, or else the reason why it cannot
 * be used. `registry/stored.py` removes reasons, between two batches.
 */
class RegistrySchemas(registry: RegistryClient, folder: String) extends WriterSchemas {
  override def headed: Boolean = true

  override def of(id: Int): Either[String, Schema] = {
    val known = RegistrySchemas.known.get((folder, id))
    if (known != null) Right(known)
    else stored(id).getOrElse(asked(id)).map { schema =>
      RegistrySchemas.known.put((folder, id), schema)
      schema
    }
  }

  private def asked(id: Int): Either[String, Schema] = RegistrySchemas.synchronized {
    stored(id).getOrElse {
      keep(id, registry.schemas(id).flatMap(texts => usable(id, texts).map(_ => texts)))
      // Another process may have been first.
      stored(id).get
    }
  }

  private def usable(id: Int, texts: Seq[String]): Either[String, Schema] =
    try Right(RegistrySchemas.parsed(texts))
    catch { case NonFatal(error) => Left(s"schema $id of the registry is not valid Avro: ${error.getMessage}") }

  private def stored(id: Int): Option[Either[String, Schema]] =
    try {
      val found = RegistrySchemas.json.readTree(Files.readString(file(id)))
      Some(
        if (found.isTextual) Left(found.textValue)
        else Right(RegistrySchemas.parsed(found.elements.asScala.map(_.textValue).toSeq)))
    } catch {
      case _: NoSuchFileException => None
    }

  /** Writes the whole file, unless there is one. */
  private def keep(id: Int, answer: Either[String, Seq[String]]): Unit = {
    Files.createDirectories(file(id).getParent)
    val made = Files.createTempFile(file(id).getParent, ".", ".tmp")
    try {
      Files.write(made, RegistrySchemas.json.writeValueAsBytes(answer.fold(reason => reason, texts => texts.asJava)))
      Files.createLink(file(id), made)
    } catch {
      case _: FileAlreadyExistsException => ()
    } finally Files.deleteIfExists(made)
  }

  private def file(id: Int): Path = Paths.get(folder, s"$id.json")
}

object RegistrySchemas {
  private val json = new ObjectMapper
  private val known = new ConcurrentHashMap[(String, Int), Schema]

  private def parsed(texts: Seq[String]): Schema = {
    val parser = new Schema.Parser()
    texts.map(parser.parse).last
  }
}
