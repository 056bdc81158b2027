package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streaming.{StatefulProcessor, TimeMode}
import org.apache.spark.sql.types._

/** What the processors of tables share: they emit the changes of a row, most of them without event time. */
object TableFrames {

  /** The output of a processor for `frame`, whose first `inputs` columns are its input and whose others are keys. */
  def processed(frame: DataFrame, inputs: Int, time: TimeMode = TimeMode.None())(
      made: Seq[StructField] => (StatefulProcessor[Row, Row, Row], StructType)): DataFrame = {
    val rows = FiringWindows.normal(FiringWindows.analyzed(frame), inputs)
    val (input, keys) = rows.output.splitAt(inputs)
    val (processor, output) = made(DataTypeUtils.fromAttributes(keys))
    FiringWindows.processed(frame.sparkSession, rows, input, keys, time)(processor, output)
  }

  /** What is emitted for a row that was `before` and is `now`: the row that goes, and the one that comes. */
  def changes(before: Option[Row], now: Option[Row]): Seq[(Row, Boolean)] =
    if (before.isDefined && now.isDefined && Changes.same(before.get, now.get)) Nil
    else before.map(_ -> true).toSeq ++ now.map(_ -> false)
}
