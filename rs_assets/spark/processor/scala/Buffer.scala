package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._

/**
 * The aggregates of one group, as Spark's own functions compute them.
 *
 * There is one for all groups of a task: `load` before the rows of a group are added. Three kinds of functions share
 * the buffer: some are expressions, some change its fields, and some keep an object in a field of it, which is bytes in
 * state. Of these Spark only promises that what was in state can be merged with the rows that came since, so they are
 * kept apart until somebody asks for the whole.
 */
class Buffer(aggregation: Aggregation) {
  private val functions = aggregation.functions.map(_.of)
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.size)
  private val fields = aggregation.buffer.map(_.dataType).toArray
  private val buffer = new SpecificInternalRow(aggregation.buffer.map(_.dataType))
  private val other = new SpecificInternalRow(aggregation.buffer.map(_.dataType))
  private val joined = new JoinedRow

  private val imperative = functions.indices.collect {
    case i if functions(i).isInstanceOf[ImperativeAggregate] => i -> placed(i)
  }
  private val kept = imperative.collect {
    case (i, f: TypedImperativeAggregate[AnyRef @unchecked]) => offsets(i) -> f
  }
  private val aside = new Array[AnyRef](kept.length)
  private var whole = false
  private val counts = aggregation.functions.map(_.filter.map(Predicate.create(_, aggregation.inputs)))

  private val first = MutableProjection.create(declared((f, _) => f.initialValues), Nil).target(buffer)
  private val updated =
    MutableProjection.create(declared(filtered), aggregation.buffer ++ aggregation.inputs).target(buffer)
  private val merged = MutableProjection.create(
    declared((f, _) => f.mergeExpressions),
    aggregation.buffer ++ functions.flatMap {
      case f: DeclarativeAggregate => f.inputAggBufferAttributes
      case f => f.aggBufferAttributes.map(_.newInstance())
    }).target(buffer)
  private val values = MutableProjection.create(functions.map {
    case f: DeclarativeAggregate => f.evaluateExpression
    case f => Literal.create(null, f.dataType)
  }, aggregation.buffer)
  private val results =
    MutableProjection.create(aggregation.results, aggregation.keys ++ aggregation.functions.map(_.value))

  private val toResult = CatalystTypeConverters.createToScalaConverter(aggregation.resultType)
  private val toInput = CatalystTypeConverters.createToCatalystConverter(aggregation.inputType)
  private val toField = fields.map(CatalystTypeConverters.createToCatalystConverter)
  private val fromField = fields.map(CatalystTypeConverters.createToScalaConverter)

  /** Begin with what is in state; null for nothing. */
  def load(state: Row): Unit =
    if (state == null) {
      first(InternalRow.empty)
      imperative.foreach { case (_, f) => f.initialize(buffer) }
      java.util.Arrays.fill(aside, null)
      whole = false
    } else {
      for (i <- fields.indices) buffer.update(i, toField(i)(state.get(i)))
      for ((at, f) <- kept) buffer.update(at, f.deserialize(buffer.getBinary(at)))
      whole = true
    }

  /** Add a row of inputs. */
  def add(row: Row): Unit = {
    val input = toInput(row).asInstanceOf[InternalRow]
    beginPart()
    updated(joined(buffer, input))
    for ((i, f) <- imperative if counts(i).forall(_.eval(input))) f.update(buffer, input)
  }

  /** Add all rows of another group, by what is in state of it. */
  def merge(state: Row): Unit = {
    endPart()
    for (i <- fields.indices) other.update(i, toField(i)(state.get(i)))
    merged(joined(buffer, other))
    for ((_, f) <- imperative) f.merge(buffer, other)
  }

  /** The columns of the results as it stands. */
  def evaluated(key: InternalRow): Seq[Any] = {
    endPart()
    val row = values(buffer)
    for ((i, f) <- imperative) row.update(i, f.eval(buffer))
    toResult(results(new JoinedRow(key, row))).asInstanceOf[Row].toSeq
  }

  /** What goes into state. Nothing can be added or evaluated behind it before the next `load`. */
  def stored(): Seq[Any] = {
    endPart()
    for ((_, f) <- kept) f.serializeAggregateBufferInPlace(buffer)
    fields.indices.map(i => owned(fromField(i)(buffer.get(i, fields(i)))))
  }

  /** A function may write the bytes of the next group where those of this one are. */
  private def owned(value: Any): Any = value match {
    case bytes: Array[Byte] => bytes.clone
    case other => other
  }

  private def beginPart(): Unit = if (whole) {
    for (((at, f), i) <- kept.zipWithIndex) {
      aside(i) = objectAt(at)
      buffer.update(at, f.createAggregationBuffer())
    }
    whole = false
  }

  private def endPart(): Unit = if (!whole) {
    for (((at, f), i) <- kept.zipWithIndex if aside(i) != null) buffer.update(at, f.merge(aside(i), objectAt(at)))
    whole = true
  }

  private def objectAt(at: Int): AnyRef = buffer.get(at, fields(at)).asInstanceOf[AnyRef]

  private def placed(i: Int): ImperativeAggregate = {
    val function = functions(i).asInstanceOf[ImperativeAggregate]
    BindReferences.bindReference(
      function.withNewMutableAggBufferOffset(offsets(i)).withNewInputAggBufferOffset(offsets(i)),
      AttributeSeq(aggregation.inputs))
  }

  private def filtered(function: DeclarativeAggregate, filter: Option[Expression]): Seq[Expression] =
    filter.fold(function.updateExpressions) { counts =>
      function.updateExpressions.zip(function.aggBufferAttributes).map { case (made, old) => If(counts, made, old) }
    }

  /** The expressions of those functions that are expressions, and nothing in the places of the others. */
  private def declared(part: (DeclarativeAggregate, Option[Expression]) => Seq[Expression]): Seq[Expression] =
    aggregation.functions.flatMap {
      case Function(f: DeclarativeAggregate, filter, _, _) => part(f, filter)
      case Function(f, _, _, _) => Seq.fill(f.aggBufferAttributes.size)(NoOp)
    }
}
