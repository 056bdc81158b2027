package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{instantToMicros, microsToInstant}
import org.apache.spark.sql.streaming.StatefulProcessor
import org.apache.spark.sql.types._

/** A row waiting in a join: its event time in microseconds, whether it is matched, whether it was emitted unmatched. */
class Waiting(val at: Long, val row: Row, var met: Boolean = false, var told: Boolean = false) {
  /** The row in the form of Spark's expressions, made when a condition first needs it. */
  var internal: Any = _
}

/**
 * The rows of both sides of a join: each has `keys`, the event time `at`, and its fields in `left` or in `right`; the
 * other one is null.
 */
case class Sides(keys: Seq[Attribute], at: Attribute, left: Attribute, right: Attribute) {

  val inputs: Seq[Attribute] = Seq(at, left, right)

  /** The columns of a row of the join: the keys, both rows, and whether it retracts an earlier one. */
  val made: StructType = StructType(DataTypeUtils.fromAttributes(keys) ++ Seq(left, right).map { side =>
    StructField(side.name, side.dataType)
  }).add("_rs_retracted", BooleanType)

  /** The schema of state: the waiting rows of each side. */
  val kept: StructType = StructType(Seq(left, right).map { side =>
    val row = Aggregation.stored(side.dataType.asInstanceOf[StructType])
    val waiting = new StructType()
      .add("at", TimestampType).add("matched", BooleanType).add("told", BooleanType).add("row", row)
    StructField(side.name, ArrayType(waiting))
  })

  /** The rows in state, of the left side and of the right one; null for none. */
  def waitingIn(state: Row): (mutable.ArrayBuffer[Waiting], mutable.ArrayBuffer[Waiting]) =
    if (state == null) (mutable.ArrayBuffer.empty, mutable.ArrayBuffer.empty)
    else (rows(state.getSeq[Row](0)), rows(state.getSeq[Row](1)))

  def stored(left: Iterable[Waiting], right: Iterable[Waiting]): Row = Row(left.map(stored).toSeq, right.map(stored).toSeq)

  /** The same for one side only, which has its own row of state. */
  def waitingOf(ofLeft: Boolean, state: Row): mutable.ArrayBuffer[Waiting] =
    if (state == null) mutable.ArrayBuffer.empty else rows(state.getSeq[Row](if (ofLeft) 0 else 1))

  def stored(ofLeft: Boolean, waiting: Iterable[Waiting]): Row = {
    val rows = waiting.map(stored).toSeq
    if (ofLeft) Row(rows, null) else Row(null, rows)
  }

  /** Whether an input row is of the left side, and the row in its initial waiting form. */
  def arrived(input: Row): (Boolean, Waiting) = {
    val ofLeft = !input.isNullAt(1)
    (ofLeft, new Waiting(instantToMicros(input.getInstant(0)), input.getStruct(if (ofLeft) 1 else 2)))
  }

  def told(key: Row, left: Row, right: Row, retracted: Boolean = false): Row =
    Row.fromSeq(key.toSeq ++ Seq(left, right, retracted))

  private def rows(stored: Seq[Row]): mutable.ArrayBuffer[Waiting] = stored.map { row =>
    new Waiting(instantToMicros(row.getInstant(0)), row.getStruct(3), row.getBoolean(1), row.getBoolean(2))
  }.to(mutable.ArrayBuffer)

  private def stored(waiting: Waiting): Row =
    Row(microsToInstant(waiting.at), waiting.met, waiting.told, waiting.row)
}

object Sides {

  /** The output of `processor` for the sides in `united`: time, left row, right row (Spark wants them first), keys. */
  def processed(united: DataFrame)(processor: Sides => StatefulProcessor[Row, Row, Row]): DataFrame = {
    val rows = FiringWindows.normal(FiringWindows.analyzed(united), 3)
    val Seq(at, left, right) = rows.output.take(3)
    val sides = Sides(rows.output.drop(3), at, left, right)
    FiringWindows.processed(united.sparkSession, rows, sides.inputs, sides.keys)(processor(sides), sides.made)
  }

  /** The expression of the only column of `condition`, over the columns two projections below it. */
  def condition(condition: DataFrame): Expression = {
    val analyzed = ReplaceExpressions(FiringWindows.analyzed(condition)).transformExpressionsUp {
      case named: With => Aggregation.inlined(named)
    }
    val Project(Seq(Alias(wanted, _)), Project(fields, _)) = analyzed
    val known = AttributeMap(fields.collect { case alias: Alias => alias.toAttribute -> alias.child })
    val made = wanted.transformUp { case name: Attribute => known.getOrElse(name, name) }
    val refused = made.find(part => !part.deterministic || part.isInstanceOf[Unevaluable] && !part.isInstanceOf[Attribute])
    require(refused.isEmpty, s"a join in a processor cannot compute: ${refused.map(_.sql).orNull}")
    made
  }
}

/** Whether a condition holds for two rows; null and false are no match. */
class Condition(expression: Expression, sides: Sides) {
  private val holds = Predicate.create(expression, Seq(sides.left, sides.right))
  private val toLeft = CatalystTypeConverters.createToCatalystConverter(sides.left.dataType)
  private val toRight = CatalystTypeConverters.createToCatalystConverter(sides.right.dataType)

  def apply(left: Waiting, right: Waiting): Boolean = holds.eval(InternalRow(read(left, toLeft), read(right, toRight)))

  private def read(waiting: Waiting, convert: Any => Any): Any = {
    if (waiting.internal == null) waiting.internal = convert(waiting.row)
    waiting.internal
  }
}
