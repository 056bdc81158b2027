package org.apache.spark.sql.rsassets

import java.util.{List => JavaList, UUID}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, Row, SparkSession, classic}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal, UnsafeRow}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.{col, count => counted, lit, sum, udf, xxhash64}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * The rows of some keys in the state of a query: counted, and left out when the state is written again.
 *
 * `wanted` are groups of three texts: the number of an operator, a field of its keys or rows, and one of its values.
 */
object KeysInState {
  private val Neither = 0
  private val InKey = 1
  private val InRow = 2

  /**
   * A line for each column family, fields with tabs between them: operator, store, family, whether its keys and whether
   * its rows have a field, whether its types are known, how many keys have a value, how many other rows, how many have
   * neither, and the sum of a hash of these.
   */
  def found(session: SparkSession, checkpoint: String, batch: Long, wanted: JavaList[String]): Array[String] = {
    val lines = for {
      (operator, store, families) <- stores(session, checkpoint, batch)
      fields = of(operator, wanted)
      counts = count(session, checkpoint, batch, operator, store, new KeysInRows(families, fields))
      family <- (families.keySet ++ counts.keySet.map(_._1)).toSeq.sorted
      kinds = families.get(family)
      numbers = Seq(InKey, InRow, Neither).map(side => counts.get((family, side)).fold(0L)(_._1))
      digest = counts.get((family, Neither)).fold("0")(_._2)
    } yield (Seq(operator, store, family, kinds.exists(each => has(each._1, fields)),
      kinds.exists(each => has(each._2, fields)), kinds.nonEmpty) ++ numbers :+ digest).mkString("\t")
    lines.toArray
  }

  /** Write the state after batch `read` as that after batch `written`, which has a plan, without keys that have a value. */
  def leaveOut(session: SparkSession, checkpoint: String, read: Long, written: Long, wanted: JavaList[String]): Unit = {
    val families = stores(session, checkpoint, read).map { case (operator, store, kinds) => (operator, store) -> kinds }.toMap
    val kept = (rows: DataFrame) => {
      val (operator, store) = origin(rows)
      val finder = new KeysInRows(families((operator, store)), of(operator, wanted))
      val stays = udf((family: String, key: Array[Byte]) => !finder.inKey(family, key))
      rows.filter(stays(col("column_family_name"), col("key_bytes")))
    }
    new StateRewriter(session, read, written, checkpoint, conf(session), transformFunc = Some(kept)).run()
  }

  /** Unload all state of this process; no stream may run in it. Otherwise it would write snapshots of it later. */
  def unload(): Unit = StateStore.stop()

  /** How many rows there are, and the sum of their hashes, by family and by where they have a value. */
  private def count(
      session: SparkSession,
      checkpoint: String,
      batch: Long,
      operator: Long,
      store: String,
      finder: KeysInRows): Map[(String, Int), (Long, String)] = {
    val side = udf((family: String, key: Array[Byte], row: Array[Byte]) =>
      if (finder.inKey(family, key)) InKey else if (finder.inRow(family, row)) InRow else Neither)
    val rows = session.read.format("statestore")
      .option(StateSourceOptions.PATH, checkpoint)
      .option(StateSourceOptions.BATCH_ID, batch)
      .option(StateSourceOptions.OPERATOR_ID, operator)
      .option(StateSourceOptions.STORE_NAME, store)
      .option(StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES, "true")
      .load()
    val sides = side(col("column_family_name"), col("key_bytes"), col("value_bytes")).as("side")
    val hashed = xxhash64(col("key_bytes"), col("value_bytes")).cast("decimal(20,0)").as("hashed")
    rows.select(col("column_family_name"), sides, hashed).groupBy("column_family_name", "side")
      .agg(counted(lit(1)), sum("hashed").cast("string")).collect()
      .map(row => (row.getString(0), row.getInt(1)) -> (row.getLong(2), row.getString(3))).toMap
  }

  /** Each store of each operator, and the types of keys and rows in its column families. */
  private def stores(
      session: SparkSession, checkpoint: String, batch: Long): Seq[(Long, String, Map[String, (StructType, StructType)])] = {
    val hadoop = conf(session)
    val metadata = new StateMetadataPartitionReader(checkpoint, new SerializableConfiguration(hadoop), batch)
    for {
      operator <- metadata.allOperatorStateMetadata.toSeq
      number = operator.operatorInfo.operatorId
      store <- operator.stateStoresMetadata.toSeq
    } yield (number, store.storeName, families(checkpoint, number, store, hadoop))
  }

  private def families(
      checkpoint: String, operator: Long, store: StateStoreMetadata, hadoop: Configuration): Map[String, (StructType, StructType)] = {
    val files = store match {
      case later: StateStoreMetadataV2 => later.stateSchemaFilePaths.map(new Path(_))
      case _ => Nil
    }
    val root = new Path(checkpoint, "state").toString
    val id = StateStoreId(root, operator, StateStore.PARTITION_ID_TO_CHECK_SCHEMA, store.storeName)
    new StateSchemaCompatibilityChecker(StateStoreProviderId(id, UUID.randomUUID()), hadoop, files).readSchemaFile()
      .map(family => family.colFamilyName -> (family.keySchema, family.valueSchema)).toMap
  }

  private def origin(rows: DataFrame): (Long, String) = {
    val plan = rows.asInstanceOf[classic.Dataset[Row]].queryExecution.analyzed
    val options = plan.collectFirst { case relation: DataSourceV2Relation => relation.options }.get
    (options.get(StateSourceOptions.OPERATOR_ID).toLong, options.get(StateSourceOptions.STORE_NAME))
  }

  private def of(operator: Long, wanted: JavaList[String]): Map[String, Set[String]] =
    wanted.asScala.toSeq.grouped(3).filter(_.head.toLong == operator).toSeq
      .groupMap(_(1))(_(2)).map { case (field, texts) => field -> texts.toSet }

  private def has(kind: DataType, fields: Map[String, Set[String]]): Boolean = kind match {
    case row: StructType => row.exists(field => fields.contains(field.name) || has(field.dataType, fields))
    case array: ArrayType => has(array.elementType, fields)
    case map: MapType => has(map.keyType, fields) || has(map.valueType, fields)
    case _ => false
  }

  private def conf(session: SparkSession): Configuration =
    session.asInstanceOf[classic.SparkSession].sessionState.newHadoopConf()
}

/** Whether a key or a row of a column family has one of the values of a field, at any depth. */
class KeysInRows(families: Map[String, (StructType, StructType)], fields: Map[String, Set[String]]) extends Serializable {
  // The texts as values of a type: rows are many, and types are few.
  @transient private lazy val values = mutable.Map.empty[(Set[String], DataType), Set[Any]]

  def inKey(family: String, bytes: Array[Byte]): Boolean = families.get(family).exists(kinds => holds(bytes, kinds._1))

  def inRow(family: String, bytes: Array[Byte]): Boolean = families.get(family).exists(kinds => holds(bytes, kinds._2))

  private def holds(bytes: Array[Byte], kind: StructType): Boolean = fields.nonEmpty && bytes != null && {
    val row = new UnsafeRow(kind.length)
    row.pointTo(bytes, bytes.length)
    inStruct(row, kind)
  }

  private def inStruct(row: InternalRow, kind: StructType): Boolean = kind.fields.indices.exists { place =>
    val field = kind(place)
    !row.isNullAt(place) && {
      val value = row.get(place, field.dataType)
      fields.get(field.name).exists(same(value, field.dataType, _)) || inside(value, field.dataType)
    }
  }

  private def inside(value: Any, kind: DataType): Boolean = (value, kind) match {
    case (row: InternalRow, struct: StructType) => inStruct(row, struct)
    case (array: ArrayData, ArrayType(element, _)) => among(array, element)
    case (map: org.apache.spark.sql.catalyst.util.MapData, MapType(key, element, _)) =>
      among(map.keyArray(), key) || among(map.valueArray(), element)
    case _ => false
  }

  private def among(array: ArrayData, kind: DataType): Boolean = kind match {
    case _: StructType | _: ArrayType | _: MapType =>
      (0 until array.numElements()).exists(place => !array.isNullAt(place) && inside(array.get(place, kind), kind))
    case _ => false
  }

  /** Whether a value is one of the texts: as Spark shows it, or as a number or a time that the text is read as. */
  private def same(value: Any, kind: DataType, texts: Set[String]): Boolean = kind match {
    case _: StructType | _: ArrayType | _: MapType | BinaryType => false
    case _: StringType => texts.contains(value.toString)
    case _ =>
      val read = values.getOrElseUpdate((texts, kind), texts.map(cast(_, StringType, kind)).filter(_ != null))
      read.contains(value) || texts.contains(String.valueOf(cast(value, kind, StringType)))
  }

  private def cast(value: Any, from: DataType, to: DataType): Any = {
    val given = if (from == StringType) UTF8String.fromString(value.toString) else value
    Cast(Literal(given, from), to, Some("UTC"), EvalMode.TRY).eval()
  }
}
