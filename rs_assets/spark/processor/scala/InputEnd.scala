package org.apache.spark.sql.rsassets

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource

/**
 * The end of the input of a query that ends with what was there at its start (`Trigger.AvailableNow`).
 *
 * A source of files has listed its folder once, at the start. Spark ends the query after a look at the sources that
 * found nothing, so a file that is to be read by the same start must be seen by the next look.
 */
object InputEnd {
  /** Whether each source of files among `sources` has planned all that it listed, those below `controls` aside. */
  def reached(sources: Seq[SparkDataStream], controls: java.util.List[String]): Boolean =
    files(sources).filterNot(isOneOf(controls)).forall(planned)

  /** Let the sources of the folders `controls` list them again at each look; false if one of them is no such source. */
  def reopen(sources: Seq[SparkDataStream], controls: java.util.List[String]): Boolean = {
    val found = files(sources).filter(isOneOf(controls))
    found.foreach(Listed.set(_, null))
    found.size == controls.size
  }

  private def files(sources: Seq[SparkDataStream]): Seq[FileStreamSource] =
    sources.collect { case source: FileStreamSource => source }.distinct

  private def isOneOf(folders: java.util.List[String])(source: FileStreamSource): Boolean = {
    val shown = source.toString
    folders.stream.anyMatch(folder => shown == s"FileStreamSource[file:$folder]")
  }

  private def planned(source: FileStreamSource): Boolean = Listed.get(source) match {
    case files: Seq[_] =>
      val seen = Seen.get(source).asInstanceOf[FileStreamSource.SeenFilesMap]
      // An entry is a path, a size and a time; its class is Spark's own.
      files.forall { case file: Product =>
        !seen.isNewFile(file.productElement(0).asInstanceOf[SparkPath], file.productElement(2).asInstanceOf[Long])
      }
    case _ => false
  }

  private val Listed = field("allFilesForTriggerAvailableNow")
  private val Seen = field("seenFiles")

  private def field(name: String): java.lang.reflect.Field = {
    val found = classOf[FileStreamSource].getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}
