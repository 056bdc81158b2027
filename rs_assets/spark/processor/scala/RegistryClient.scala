package org.apache.spark.sql.rsassets

import java.io.{ByteArrayInputStream, IOException}
import java.net.{URI, URLEncoder}
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.KeyStore
import java.security.cert.CertificateFactory
import java.time.Duration
import javax.net.ssl.{SSLContext, TrustManagerFactory}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.SparkException

/**
 * Reads schemas by the HTTP interface of Confluent's schema registry, which others have too.
 *
 * `authorization` is the header of that name, empty for none; `authorities` are certificates in PEM form, empty for
 * Java's own. A registry that does not answer is asked again for `patienceMs`. After that, and if it refuses, the task
 * fails with an error of this project in its text.
 */
class RegistryClient(url: String, authorization: String, authorities: String, patienceMs: Long) extends Serializable {
  @transient private lazy val client = {
    val made = HttpClient.newBuilder.connectTimeout(RegistryClient.Timeout)
    (if (authorities.isEmpty) made else made.sslContext(trusting)).build
  }

  /** Name and text of a schema of `kind` and, before it, of those that it refers to; a reason if there is none. */
  def schemas(id: Int, kind: SchemaKind): Either[String, Seq[(String, String)]] =
    // A follower of a registry may get to know a schema later than the leader.
    known(id, kind).orElse { Thread.sleep(RegistryClient.FollowMs); known(id, kind) } match {
      case None => Left(s"the schema registry has no schema $id")
      case Some(found) =>
        val code = Option(found.get("schemaType")).map(_.asText).getOrElse(SchemaKind.Avro.code)
        if (code == kind.code) Right(withReferences("", found, kind))
        else Left(s"schema $id of the registry is $code, not ${kind.name}")
    }

  private def known(id: Int, kind: SchemaKind): Option[JsonNode] =
    if (id < 0) None else get(s"/schemas/ids/$id${kind.query}")

  private def withReferences(name: String, schema: JsonNode, kind: SchemaKind): Seq[(String, String)] = {
    val references = Option(schema.get("references")).toSeq.flatMap(_.elements.asScala).flatMap { each =>
      val subject = RegistryClient.quoted(each.get("subject").asText)
      val path = s"/subjects/$subject/versions/${each.get("version").asInt}${kind.query}"
      withReferences(each.get("name").asText, get(path).getOrElse(throw refused(404, path)), kind)
    }
    (references :+ (name -> schema.get("schema").asText)).distinct
  }

  /** The answer; None if the registry says that it has no such thing. */
  private def get(path: String): Option[JsonNode] = {
    val answer = answered(path)
    answer.statusCode match {
      case 200 => Some(RegistryClient.json.readTree(answer.body))
      case 404 if RegistryClient.unknown(answer.body) => None
      case other => throw refused(other, path)
    }
  }

  private def answered(path: String): HttpResponse[String] = {
    val until = System.nanoTime + patienceMs * 1000000L
    var pause = 100L
    while (true) {
      val said: Either[String, HttpResponse[String]] =
        try Right(client.send(request(path), HttpResponse.BodyHandlers.ofString))
        catch { case error: IOException => Left(RegistryClient.text(error)) }
      said match {
        case Right(answer) if answer.statusCode < 500 && answer.statusCode != 429 => return answer
        case _ if System.nanoTime < until =>
          Thread.sleep(pause)
          pause = math.min(2 * pause, 3000L)
        case Right(answer) => throw silent(s"HTTP ${answer.statusCode}")
        case Left(error) => throw silent(error)
      }
    }
    throw new IllegalStateException
  }

  private def request(path: String): HttpRequest = {
    val made = HttpRequest.newBuilder(URI.create(url + path)).timeout(RegistryClient.Timeout)
    made.header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
    if (authorization.nonEmpty) made.header("Authorization", authorization)
    made.build
  }

  private def silent(why: String): SparkException = RegistryClient.failure(
    s"the schema registry $url does not answer: $why",
    "start again when it runs: the batch is then read as it was planned")

  private def refused(status: Int, path: String): SparkException =
    if (status == 401 || status == 403)
      RegistryClient.failure(
        s"the schema registry $url refuses the login (HTTP $status)",
        "check the credentials of SchemaRegistry, and what they may read, then start again")
    else
      RegistryClient.failure(
        s"the schema registry $url answers $path with HTTP $status",
        "name the address of Confluent's interface in url=; for Apicurio it ends in /apis/ccompat/v7")

  private def trusting: SSLContext = {
    val trusted = KeyStore.getInstance(KeyStore.getDefaultType)
    trusted.load(null, null)
    val text = new ByteArrayInputStream(authorities.getBytes(UTF_8))
    val found = CertificateFactory.getInstance("X.509").generateCertificates(text)
    found.asScala.zipWithIndex.foreach { case (each, number) => trusted.setCertificateEntry(s"ca-$number", each) }
    val managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm)
    managers.init(trusted)
    val made = SSLContext.getInstance("TLS")
    made.init(null, managers.getTrustManagers, null)
    made
  }
}

/** A kind of schemas: its `code` in the interface of a registry, its name, and the query that asks for its form. */
case class SchemaKind(code: String, name: String, query: String)

object SchemaKind {
  val Avro: SchemaKind = SchemaKind("AVRO", "Avro", "")
  // Without it the answer is the text of a file for protoc.
  val Protobuf: SchemaKind = SchemaKind("PROTOBUF", "Protobuf", "?format=serialized")
}

object RegistryClient {
  private val Timeout = Duration.ofSeconds(10)
  private val FollowMs = 500L
  private val json = new ObjectMapper

  private def quoted(part: String): String = URLEncoder.encode(part, UTF_8).replace("+", "%20")

  private def text(error: IOException): String =
    s"${error.getClass.getSimpleName} ${Option(error.getMessage).mkString}".strip

  /** Whether a body has the code of an unknown subject, version or schema; a wrong address gives other texts. */
  private def unknown(body: String): Boolean =
    try Option(json.readTree(body).get("error_code")).map(_.asInt).exists(code => code >= 40401 && code <= 40403)
    catch { case _: IOException => false }

  /** An error that the driver rebuilds; see `rs_assets/common/errors_wire.py`. */
  def failure(what: String, remedy: String): SparkException = {
    val body = json.createObjectNode.put("class", "SourceReadError").put("what", what).put("remedy", remedy)
    new SparkException(s"RS_ERROR${json.writeValueAsString(body)}")
  }
}
