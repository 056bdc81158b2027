package org.apache.spark.sql.rsassets

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.io.compress.CompressionCodecFactory
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.execution.datasources.{CodecStreams, HadoopFsRelation, LogicalRelation, PartitionedFile}
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * JSON lines: one row for each good record, whose fields are all checked, and only the wanted ones written.
 *
 * Options: `rs.source` names the source; `rs.cap` is the greatest number of bytes of a line, `rs.beyond` the text of
 * the exception for a longer one. `rs.bad` is the text of the exception for a bad record; without it bad records are
 * left out, and counted. The rest are those of Spark's JSON.
 */
class JsonLines extends JsonFileFormat {
  @transient private var found: JudgedLines = _

  override val shortName: String = "rs_json_lines"
  override def toString: String = "JsonLines"
  override def hashCode: Int = getClass.hashCode
  override def equals(other: Any): Boolean = other.isInstanceOf[JsonLines]

  override def buildReaderWithPartitionValues(
      spark: SparkSession,
      schema: StructType,
      partitions: StructType,
      wanted: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      hadoop: Configuration
  ): PartitionedFile => Iterator[InternalRow] = {
    require(partitions.isEmpty, "folders are not columns of JSON lines")
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(hadoop))
    val rules = JsonRules.of(schema, wanted, filters, options)
    val judged = counts(spark)
    file => {
      val path = file.toPath
      val in = CodecStreams.createInputStreamWithCloseResource(conf.value.value, path)
      val packed = new CompressionCodecFactory(conf.value.value).getCodec(path) != null
      new JsonLineReader(in, path, file.start, file.length, packed, rules, judged)
    }
  }

  private def counts(spark: SparkSession): JudgedLines = synchronized {
    if (found == null) {
      found = new JudgedLines
      spark.sparkContext.register(found)
    }
    found
  }
}

object JsonLines {

  /**
   * The records that an execution has read of `source`, and the bad ones among them; null if it has no such source.
   *
   * A plan may leave files unread, or not read them to their ends: those are read here, for their bad records.
   */
  def judged(execution: QueryExecution, source: String): Array[Long] = {
    val relations = execution.analyzed.collect {
      case relation @ LogicalRelation(HadoopFsRelation(_, _, _, _, _: JsonLines, options), _, _, _, _)
          if options.get(JsonRules.Source).contains(source) =>
        relation
    }
    relations.headOption.map(ofRelation(execution, _)).orNull
  }

  private def ofRelation(execution: QueryExecution, relation: LogicalRelation): Array[Long] = {
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    val counts = files.fileFormat.asInstanceOf[JsonLines].counts(execution.sparkSession)
    // The sizes of the files that are read: Spark also lists `_metadata`, which is hidden.
    val bytes = files.location.listFiles(Nil, Nil).flatMap(_.files).map(_.getLen).sum
    if (counts.bytes != bytes) {
      counts.reset()
      val alone = Project(Nil, relation.copy(isStreaming = false))
      classic.Dataset.ofRows(execution.sparkSession, alone).queryExecution.toRdd.foreach(_ => ())
      require(counts.bytes == bytes, "files of the batch were not read to their ends")
    }
    Array(counts.records, counts.bad)
  }
}
