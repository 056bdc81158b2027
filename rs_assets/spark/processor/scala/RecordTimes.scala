package org.apache.spark.sql.rsassets

import java.nio.charset.StandardCharsets.US_ASCII
import java.util.{Map => JavaMap}

import org.apache.kafka.clients.producer.{ProducerInterceptor, ProducerRecord, RecordMetadata}

/**
 * Sets the time of Kafka records from their header `rs-assets-time`, in milliseconds, and removes that header.
 *
 * Spark's writer has a column for headers, but none for the time of a record. Records without that header are not
 * changed.
 */
class RecordTimes extends ProducerInterceptor[Array[Byte], Array[Byte]] {

  override def onSend(record: ProducerRecord[Array[Byte], Array[Byte]]): ProducerRecord[Array[Byte], Array[Byte]] = {
    val time = record.headers.lastHeader(RecordTimes.Header)
    if (time == null) record
    else {
      record.headers.remove(RecordTimes.Header)
      val at: java.lang.Long = new String(time.value, US_ASCII).toLong
      new ProducerRecord(record.topic, record.partition, at, record.key, record.value, record.headers)
    }
  }

  override def onAcknowledgement(metadata: RecordMetadata, error: Exception): Unit = ()

  override def close(): Unit = ()

  override def configure(settings: JavaMap[String, _]): Unit = ()
}

object RecordTimes {
  val Header = "rs-assets-time"
}
