package org.apache.spark.sql.rsassets

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.channels.Channels

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** Rows of `schema` as Arrow streams of one batch, and rows of any schema read from such streams. */
class ArrowFrames(schema: StructType) extends AutoCloseable {
  private val allocator = ArrowUtils.rootAllocator.newChildAllocator("rs-assets frames", 0, Long.MaxValue)
  private val root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", true, false), allocator)
  private val rows = ArrowWriter.create(root)

  def written(of: Iterator[InternalRow]): Array[Byte] = {
    of.foreach(rows.write)
    rows.finish()
    val made = new ByteArrayOutputStream()
    val stream = new ArrowStreamWriter(root, null, Channels.newChannel(made))
    stream.start()
    stream.writeBatch()
    stream.end()
    rows.reset()
    made.toByteArray
  }

  /** Call `each` with the rows of a stream; a row is valid until the next. */
  def read(bytes: Array[Byte], from: Int, length: Int)(each: InternalRow => Unit): Unit = {
    val reader = new ArrowStreamReader(new ByteArrayInputStream(bytes, from, length), allocator)
    try {
      val root = reader.getVectorSchemaRoot
      val columns = root.getFieldVectors.asScala.map(new ArrowColumnVector(_): ColumnVector).toArray
      while (reader.loadNextBatch())
        new ColumnarBatch(columns, root.getRowCount).rowIterator().forEachRemaining(row => each(row))
    } finally reader.close()
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}
