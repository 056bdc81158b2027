package org.apache.spark.sql.rsassets

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.{NormalizeFloatingNumbers, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._

/**
 * An aggregate function of Spark over the rows that pass `filter`. `value` represents its result; `name` is the column
 * of the window row that uses it.
 */
case class Function(of: AggregateFunction, filter: Option[Expression], value: AttributeReference, name: String)

/**
 * The definition of an aggregation.
 *
 * `keys` are the window and the group of a row, `inputs` the columns that the functions read, `results` the columns of
 * a window row, computed from the keys and the values of the functions.
 */
case class Aggregation(
    keys: Seq[Attribute],
    inputs: Seq[Attribute],
    functions: Seq[Function],
    results: Seq[NamedExpression]) {

  val keyType: StructType = DataTypeUtils.fromAttributes(keys)
  val inputType: StructType = DataTypeUtils.fromAttributes(inputs)
  val buffer: Seq[AttributeReference] = functions.flatMap(_.of.aggBufferAttributes)

  /** The state fields, named after their columns; names in `taken` are avoided. */
  def stored(taken: Seq[String]): Seq[StructField] = functions.flatMap { function =>
    val parts = function.of.aggBufferAttributes
    parts.map(part => (if (parts.size == 1) function.name else s"${function.name}_${part.name}", part.dataType))
  }.foldLeft(Seq.empty[StructField]) { case (before, (name, kind)) =>
    before :+ StructField(Aggregation.stored(name, before.map(_.name) ++ taken), Aggregation.storedType(kind))
  }
  val resultType: StructType = StructType(results.map(r => StructField(r.name, r.dataType, r.nullable)))
}

object Aggregation {

  /** The aggregation of the plan `analyzed`, whose first key is a window, and its input rows: inputs, then keys. */
  def of(analyzed: LogicalPlan): (Aggregation, LogicalPlan) = {
    val aggregate = ReplaceExpressions(analyzed).transformExpressionsUp { case named: With => inlined(named) } match {
      case found: Aggregate => found
    }
    // As in Spark's own aggregation: 0.0 and -0.0 are one key, and so are all NaN.
    val keys = aggregate.groupingExpressions.zip(namesOf(aggregate.groupingExpressions)).map { case (key, name) =>
      key -> Alias(NormalizeFloatingNumbers.normalize(key), name)()
    }
    val functions = functionsOf(aggregate)
    val inputs = mutable.LinkedHashMap.empty[Expression, Alias]
    // Spark computes them before the shuffle, where expressions work that only its optimizer prepares. The window has
    // the event time metadata, which only one column may have.
    def input(expression: Expression): Expression = if (expression.foldable) expression else inputs.getOrElseUpdate(
      expression.canonicalized,
      Alias(expression, s"_rs_input_${inputs.size}")(explicitMetadata = Some(Metadata.empty))).toAttribute
    def reading(function: AggregateFunction): AggregateFunction =
      function.withNewChildren(function.children.map(input)).asInstanceOf[AggregateFunction]

    val read = functions.values.toSeq.map(f => f.copy(of = reading(f.of), filter = f.filter.map(input)))
    val aggregation = Aggregation(
      keys.map(_._2.toAttribute),
      inputs.values.map(_.toAttribute).toSeq,
      read,
      aggregate.aggregateExpressions.map(result(_, keys, functions)))
    (aggregation, Project(inputs.values.toSeq ++ keys.map(_._2), aggregate.child))
  }

  /** The expression without references to common subexpressions, which only Spark's optimizer resolves. */
  private[rsassets] def inlined(named: With): Expression = {
    val parts = named.defs.map(part => part.id -> part.child).toMap
    named.child.transform { case part: CommonExpressionRef => parts.getOrElse(part.id, part) }
  }

  /** Spark writes the schema of state as Avro, whose names allow only ASCII letters, digits and underscores. */
  private val Plain = "[A-Za-z_][A-Za-z0-9_]*"

  /** A name for a state field that is not in `taken`. */
  def stored(name: String, taken: Seq[String]): String = {
    val plain = if (name.matches(Plain)) name else "_" + name.replaceAll("[^A-Za-z0-9_]", "")
    (Iterator(plain) ++ Iterator.from(2).map(n => s"${plain}_$n")).find(!taken.contains(_)).get
  }

  /** A schema whose names a state accepts, and whose fields may be null. */
  def stored(of: StructType): StructType = StructType(of.foldLeft(Seq.empty[StructField]) { (before, field) =>
    before :+ StructField(stored(field.name, before.map(_.name)), storedType(field.dataType))
  })

  /** A type whose inner names a state accepts: rows are written by place, so their own names do not matter. */
  def storedType(kind: DataType): DataType = kind match {
    case of: StructType =>
      StructType(stored(of).zip(of).map { case (made, field) => made.copy(nullable = field.nullable) })
    case ArrayType(item, nulls) => ArrayType(storedType(item), nulls)
    case MapType(key, value, nulls) => MapType(storedType(key), storedType(value), nulls)
    case plain => plain
  }

  private def namesOf(keys: Seq[Expression]): Seq[String] = keys.foldLeft(Seq.empty[String]) {
    case (before, key: NamedExpression) => before :+ stored(key.name, before)
    case (before, key) => before :+ stored(key.sql, before)
  }

  /** The functions without duplicates, however many columns use them. */
  private def functionsOf(aggregate: Aggregate): collection.Map[Expression, Function] = {
    val found = mutable.LinkedHashMap.empty[Expression, Function]
    for (column <- aggregate.aggregateExpressions; part <- column.collect { case e: AggregateExpression => e }) {
      require(!part.isDistinct, s"an aggregate over DISTINCT values cannot be kept in state: ${part.sql}")
      def value = AttributeReference(s"_rs_value_${found.size}", part.dataType, part.nullable)()
      found.getOrElseUpdate(part.canonicalized, Function(part.aggregateFunction, part.filter, value, column.name))
    }
    found
  }

  private def result(
      column: NamedExpression,
      keys: Seq[(Expression, Alias)],
      functions: collection.Map[Expression, Function]): NamedExpression = {
    val made = column.transformDown {
      case part: AggregateExpression => functions(part.canonicalized).value
      case part if keys.exists(_._1.semanticEquals(part)) => keys.find(_._1.semanticEquals(part)).get._2.toAttribute
    }.asInstanceOf[NamedExpression]
    if (made.name == column.name) made else Alias(made, column.name)()
  }
}
