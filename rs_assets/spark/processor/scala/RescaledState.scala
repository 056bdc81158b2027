package org.apache.spark.sql.rsassets

import org.apache.spark.TaskContext
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.datasources.v2.state.StatePartitionReaderFactory
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state.{StateRewriter, StateStoreConf}
import org.apache.spark.sql.execution.streaming.utils.StreamingUtils
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf

/** State in another number of partitions that follows the state of a running query. */
object RescaledState {

  /**
   * Brings the state in the checkpoint `to` from the end of batch `since` of the checkpoint `from` to that of `until`.
   *
   * The plan of the batch after `until` in `to` names `ChangedState` as the class of its stores.
   */
  def follow(
      spark: SparkSession,
      from: String,
      to: String,
      since: Long,
      until: Long,
      partitions: Int): Unit = {
    val hadoop = spark.sessionState.newHadoopConf()
    val Seq(source, target) = Seq(from, to).map(StreamingUtils.resolvedCheckpointLocation(hadoop, _))
    val conf = confOf(spark, source, until)
    conf.setConfString(SQLConf.STATE_STORE_PROVIDER_CLASS.key, classOf[ChangedState].getName)
    conf.setConfString(ChangedState.Since, since.toString)
    val stores = StateStoreConf(conf)
    val moved = (state: DataFrame) => changes(spark, state, stores).repartition(partitions, col("partition_key"))
    new StateRewriter(spark, until, until + 1, target, hadoop, Some(source), Some(moved), None).run()
  }

  /** The settings that the state of a batch was written with. */
  private def confOf(spark: SparkSession, checkpoint: String, batch: Long): SQLConf = {
    val conf = spark.sessionState.conf.clone()
    val plan = new StreamingQueryCheckpointMetadata(spark, checkpoint, true).offsetLog.get(batch).get
    OffsetSeqMetadata.setSessionConf(plan.metadataOpt.get, conf)
    conf
  }

  /** The rows of `state` that have changed, of the same form. */
  private def changes(spark: SparkSession, state: DataFrame, stores: StateStoreConf): DataFrame = {
    val plan = state.asInstanceOf[Dataset[Row]].queryExecution.sparkPlan
    val batch = plan.collectFirst { case scan: BatchScanExec => scan.batch }.get
    val (inputs, factory) = (batch.planInputPartitions().toSeq, batch.createReaderFactory())
    // Spark refuses another class of stores when it makes this, and does not look later.
    val field = classOf[StatePartitionReaderFactory].getDeclaredField("storeConf")
    field.setAccessible(true)
    field.set(factory, stores)
    val rows = spark.sparkContext.parallelize(inputs, inputs.size).mapPartitions(_.flatMap(rowsOf(factory, _)))
    spark.internalCreateDataFrame(rows, state.schema)
  }

  private def rowsOf(factory: PartitionReaderFactory, input: InputPartition): Iterator[InternalRow] = {
    val reader = factory.createReader(input)
    TaskContext.get().addTaskCompletionListener[Unit](_ => reader.close())
    Iterator.continually(reader).takeWhile(_.next()).map(_.get())
  }
}
