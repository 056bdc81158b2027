package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types.DecimalType

/**
 * The aggregates of one group, computed by Spark's own functions.
 *
 * One instance serves all groups of a task: call `load` before adding the rows of a group. Three kinds of functions
 * share the buffer: expressions, functions that change its fields, and functions that keep an object in a field, which
 * is bytes in state. For objects Spark only promises that the state can be merged with the rows added since, so the two
 * are kept apart until the combined result is needed.
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
  private val decimals = fields.zipWithIndex.collect { case (kind: DecimalType, at) => at -> kind }
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

  /** Start with the content of state; null for none. */
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

  /** Add an input row. */
  def add(row: Row): Unit = {
    val input = toInput(row).asInstanceOf[InternalRow]
    beginPart()
    updated(joined(buffer, input))
    dropOverflows()
    for ((i, f) <- imperative if counts(i).forall(_.eval(input))) f.update(buffer, input)
  }

  /** Add all rows of another group, given its content of state. */
  def merge(state: Row): Unit = {
    endPart()
    for (i <- fields.indices) other.update(i, toField(i)(state.get(i)))
    merged(joined(buffer, other))
    dropOverflows()
    for ((_, f) <- imperative) f.merge(buffer, other)
  }

  /** The result columns for the current content. */
  def evaluated(key: InternalRow): Seq[Any] = {
    endPart()
    val row = values(buffer)
    for ((i, f) <- imperative) row.update(i, f.eval(buffer))
    toResult(results(new JoinedRow(key, row))).asInstanceOf[Row].toSeq
  }

  /** The content for state. Nothing can be added or evaluated after it until the next `load`. */
  def stored(): Seq[Any] = {
    endPart()
    for ((_, f) <- kept) f.serializeAggregateBufferInPlace(buffer)
    fields.indices.map(i => owned(fromField(i)(buffer.get(i, fields(i)))))
  }

  /** A copy: a function may write the bytes of the next group into the same memory. */
  private def owned(value: Any): Any = value match {
    case bytes: Array[Byte] => bytes.clone
    case other => other
  }

  /** A sum with too many digits is null from then on, as in the rows of Spark's own aggregation: it is not stored. */
  private def dropOverflows(): Unit = for ((at, kind) <- decimals if !buffer.isNullAt(at)) {
    val value = buffer.getDecimal(at, kind.precision, kind.scale)
    if (!value.changePrecision(kind.precision, kind.scale)) buffer.setNullAt(at)
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

  /** The expressions of the declarative functions, and nothing in the places of the others. */
  private def declared(part: (DeclarativeAggregate, Option[Expression]) => Seq[Expression]): Seq[Expression] =
    aggregation.functions.flatMap {
      case Function(f: DeclarativeAggregate, filter, _, _) => part(f, filter)
      case Function(f, _, _, _) => Seq.fill(f.aggBufferAttributes.size)(NoOp)
    }
}
