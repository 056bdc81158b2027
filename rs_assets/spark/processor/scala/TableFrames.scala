package org.apache.spark.sql.rsassets

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streaming.{StatefulProcessor, TimeMode}
import org.apache.spark.sql.types._

/** What the processors of tables share: they have no event time, and emit the changes of a row. */
object TableFrames {

  /** The output of a processor for `frame`, whose first `inputs` columns are its input and whose others are keys. */
  def processed(frame: DataFrame, inputs: Int)(
      made: Seq[StructField] => (StatefulProcessor[Row, Row, Row], StructType)): DataFrame = {
    val analyzed = FiringWindows.analyzed(frame)
    val (input, keys) = analyzed.output.splitAt(inputs)
    // As in Spark's own joins: 0.0 equals -0.0, and all NaN are equal.
    val rows = Project(input ++ keys.map(key => NormalizeFloatingNumbers.normalize(key) match {
      case `key` => key
      case normal => Alias(normal, key.name)()
    }), analyzed)
    val (processor, output) = made(DataTypeUtils.fromAttributes(keys))
    FiringWindows.processed(frame.sparkSession, rows, rows.output.take(inputs), rows.output.drop(inputs), TimeMode.None())(
      processor, output)
  }

  /** What is emitted for a row that was `before` and is `now`: the row that goes, and the one that comes. */
  def changes(before: Option[Row], now: Option[Row]): Seq[(Row, Boolean)] =
    if (before.isDefined && now.isDefined && Changes.same(before.get, now.get)) Nil
    else before.map(_ -> true).toSeq ++ now.map(_ -> false)

  /** A schema whose names Spark's state accepts, and whose fields may be null. */
  def stored(of: StructType): StructType = StructType(of.foldLeft(Seq.empty[StructField]) { (before, field) =>
    before :+ StructField(Aggregation.stored(field.name, before.map(_.name)), field.dataType)
  })
}
