package org.apache.spark.sql.rsassets

import org.apache.spark.sql.Row
import org.apache.spark.sql.types._

/**
 * The rows that a group emits when its columns change: the previous row is retracted, and the new one is emitted.
 *
 * If the rows are `ranked` the last column is an array, and only its changed elements are emitted: the others are null.
 * If another column changed, all elements have changed.
 */
class Changes(ranked: Boolean) extends Serializable {

  /** The rows for columns that were emitted `before`, if any, and are `now`, if any. */
  def rows(before: Option[Seq[Any]], now: Option[Seq[Any]]): Seq[Row] = {
    val (was, is) = if (ranked) (parted(before, now), parted(now, before)) else (apart(before, now), apart(now, before))
    was.map(told(_, retracted = true)).toSeq ++ is.map(told(_, retracted = false))
  }

  /** `one`, if it differs from `other`. */
  private def apart(one: Option[Seq[Any]], other: Option[Seq[Any]]): Option[Seq[Any]] =
    one.filterNot(columns => other.exists(Changes.same(columns, _)))

  /** The same for ranked rows: only the elements of `one` that differ. */
  private def parted(one: Option[Seq[Any]], other: Option[Seq[Any]]): Option[Seq[Any]] = one.flatMap { columns =>
    val besides = other.filter(columns => Changes.same(columns.init, one.get.init)).map(ranking).getOrElse(Nil)
    val rows = ranking(columns).zipWithIndex.map { case (row, place) =>
      if (besides.lift(place).exists(Changes.same(row, _))) null else row
    }
    Option.when(rows.exists(_ != null))(columns.init :+ rows)
  }

  private def ranking(columns: Seq[Any]): Seq[Any] = columns.last match {
    case rows: scala.collection.Seq[_] => rows.toSeq
    case null => Nil
  }

  private def told(columns: Seq[Any], retracted: Boolean): Row = Row.fromSeq(columns ++ Seq(null, false, retracted))
}

object Changes {

  /** The columns of a firing `made`, plus the flag of retracted rows; ranked rows may be null. */
  private[rsassets] def told(made: StructType, aggregation: Aggregation, ranked: Boolean): StructType = {
    val last = aggregation.resultType.size - 1
    val fields = made.zipWithIndex.map {
      case (StructField(name, ArrayType(row, _), nullable, _), `last`) if ranked =>
        StructField(name, ArrayType(row, containsNull = true), nullable)
      case (field, _) => field
    }
    StructType(fields).add("_rs_retracted", BooleanType)
  }

  /** Equality for users: all NaN are equal, and bytes are compared by content. */
  private[rsassets] def same(one: Any, other: Any): Boolean = (one, other) match {
    case (a: Array[Byte], b: Array[Byte]) => java.util.Arrays.equals(a, b)
    case (a: Row, b: Row) => same(a.toSeq, b.toSeq)
    case (a: scala.collection.Seq[_], b: scala.collection.Seq[_]) => a.size == b.size && a.lazyZip(b).forall(same)
    case (a: Double, b: Double) => a == b || a.isNaN && b.isNaN
    case (a: Float, b: Float) => a == b || a.isNaN && b.isNaN
    case _ => one == other
  }
}
