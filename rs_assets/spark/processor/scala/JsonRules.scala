package org.apache.spark.sql.rsassets

import java.util.Locale

import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.internal.{LegacyBehaviorPolicy, SQLConf}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/**
 * How lines of JSON are read: all fields, the wanted ones among them, and what a query wants of some.
 *
 * `times`: times and dates have Spark's default form; `utc`: those without a zone are of UTC. `bad` is None if bad
 * records are left out.
 */
case class JsonRules(
    schema: StructType,
    wanted: StructType,
    limits: Map[String, JsonLimit],
    options: Map[String, String],
    zone: String,
    times: Boolean,
    utc: Boolean,
    cap: Int,
    beyond: String,
    bad: Option[String]
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
    val limits = JsonLimit.all(if (conf.jsonFilterPushDown) filters else Nil)
    JsonRules(
      schema,
      wanted,
      limits.filter(each => known(schema, each._1)),
      options,
      new JSONOptions(options, conf.sessionLocalTimeZone, SparkLines.Corrupt).zoneId.getId,
      times = !formatted && conf.legacyTimeParserPolicy != LegacyBehaviorPolicy.LEGACY,
      utc = Utc(conf.sessionLocalTimeZone),
      cap = options("rs.cap").toInt,
      beyond = options("rs.beyond"),
      bad = options.get("rs.bad")
    )
  }

  /** In other names a point may be part of the name, or lead into a field. */
  private def known(schema: StructType, field: String): Boolean =
    field.matches("[A-Za-z0-9_]+") && schema.fieldNames.contains(field)
}
