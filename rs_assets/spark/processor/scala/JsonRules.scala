package org.apache.spark.sql.rsassets

import java.util.Locale

import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.internal.{LegacyBehaviorPolicy, SQLConf}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.StructType

/**
 * How lines of JSON are read: all fields, the wanted ones among them, and what a query wants of them.
 *
 * `times`: times and dates have Spark's default form; `utc`: those without a zone are of UTC. `bad` is None if bad
 * records are left out.
 */
case class JsonRules(
    schema: StructType,
    wanted: StructType,
    limits: Seq[JsonLimit],
    options: Map[String, String],
    zone: String,
    times: Boolean,
    utc: Boolean,
    cap: Int,
    beyond: String,
    bad: Option[String]
)

/** What a query wants of a field that is not null: a text, or a whole number from `least` to `most`. */
case class JsonLimit(
    field: String,
    text: Option[String] = None,
    least: Long = Long.MinValue,
    most: Long = Long.MaxValue
)

object JsonRules {
  val Source = "rs.source"
  // Others that change the meaning of a line are not given by our own code.
  private val Formats = Set("timestampformat", "dateformat")
  private val Utc = Set("UTC", "Z", "Etc/UTC", "GMT")

  /** To be called on the driver. */
  def of(schema: StructType, wanted: StructType, filters: Seq[Filter], options: Map[String, String]): JsonRules = {
    val conf = SQLConf.get
    val formatted = options.keys.exists(key => Formats(key.toLowerCase(Locale.ROOT)))
    val pushed = if (conf.jsonFilterPushDown) filters.flatMap(limit(schema, _)) else Nil
    JsonRules(
      schema,
      wanted,
      pushed,
      options,
      new JSONOptions(options, conf.sessionLocalTimeZone, SparkLines.Corrupt).zoneId.getId,
      times = !formatted && conf.legacyTimeParserPolicy != LegacyBehaviorPolicy.LEGACY,
      utc = Utc(conf.sessionLocalTimeZone),
      cap = options("rs.cap").toInt,
      beyond = options("rs.beyond"),
      bad = options.get("rs.bad")
    )
  }

  private def limit(schema: StructType, filter: Filter): Option[JsonLimit] = {
    val made = filter match {
      case IsNotNull(field) => Some(JsonLimit(field))
      case EqualTo(field, text: String) => Some(JsonLimit(field, text = Some(text)))
      case EqualTo(field, Whole(n)) => Some(JsonLimit(field, least = n, most = n))
      case GreaterThanOrEqual(field, Whole(n)) => Some(JsonLimit(field, least = n))
      case LessThanOrEqual(field, Whole(n)) => Some(JsonLimit(field, most = n))
      case GreaterThan(field, Whole(n)) if n < Long.MaxValue => Some(JsonLimit(field, least = n + 1))
      case LessThan(field, Whole(n)) if n > Long.MinValue => Some(JsonLimit(field, most = n - 1))
      case _ => None
    }
    // In other names a point may be part of the name, or lead into a field.
    made.filter(each => each.field.matches("[A-Za-z0-9_]+") && schema.fieldNames.contains(each.field))
  }

  private object Whole {
    def unapply(value: Any): Option[Long] = value match {
      case n: Long => Some(n)
      case n: Int => Some(n.toLong)
      case n: Short => Some(n.toLong)
      case n: Byte => Some(n.toLong)
      case _ => None
    }
  }
}
