package org.apache.spark.sql.rsassets

import java.io.File

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * State as a rescale next to a running query sees it: what has changed is read, and written over what is there.
 *
 * It reads the changelogs of the batches after `Since`: for each change the value that a key has from then on, or
 * `Gone`; of a key with several values all that it has at the end, after a `Gone`. It writes into the version that is
 * there, where Spark's writer asks for an empty store. Changes of a key come from one task and stay in their order.
 */
private[sql] class ChangedState extends RocksDBStateStoreProvider {
  private var settings = Map.empty[String, String]
  private var families = false

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit = {
    settings = storeConf.sqlConfs
    families = useColumnFamilies
    super.init(
      stateStoreId,
      keySchema,
      valueSchema,
      keyStateEncoderSpec,
      useColumnFamilies,
      storeConf,
      hadoopConf,
      useMultipleValuesPerKey,
      stateSchemaProvider
    )
  }

  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean): StateStore = {
    def load(version: Long, snapshot: Boolean): StateStore =
      super.getStore(version, uniqueId, snapshot, loadEmpty = false)
    // Changes are read without the state, but not without the numbers of its column families.
    def described = load(if (families) newestSnapshot(version) else 0, snapshot = false)
    if (loadEmpty) new PatchedStore(load(version, snapshot = true))
    else new ChangedStore(described, load(version, snapshot = false), changes(version, _))
  }

  /** The state after a batch has the version of the next one. */
  private def changes(version: Long, family: String): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] =
    getStateStoreChangeDataReader(
      settings(ChangedState.Since).toLong + 2, version, Option.when(families)(family), None)

  private def newestSnapshot(version: Long): Long = {
    val folder = new File(stateStoreId.storeCheckpointLocation().toUri.getPath)
    val found = folder.list().toSeq.collect { case ChangedState.Snapshot(number) => number.toLong }
    found.filter(_ <= version).maxOption.getOrElse(0L)
  }
}

private[sql] object ChangedState {
  // Only settings of state stores reach a store.
  val Since = "spark.sql.streaming.stateStore.rsassets.since"
  private val Snapshot = """(\d+)\.zip""".r

  // A row without fields has no bytes, and a row with one field has sixteen.
  private val GoneBytes = 8

  val Gone: UnsafeRow = {
    val row = new UnsafeRow(0)
    row.pointTo(new Array[Byte](GoneBytes), GoneBytes)
    row
  }

  def isGone(value: UnsafeRow): Boolean = value.getSizeInBytes == GoneBytes
}

private class ChangedStore(
    described: StateStore,
    load: => StateStore,
    changes: String => Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)])
    extends StoreOver(described) {
  private val registered = mutable.ArrayBuffer.empty[StateStore => Unit]
  private var loaded: Option[StateStore] = None

  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      several: Boolean,
      isInternal: Boolean): Unit = {
    val register = (_: StateStore).createColFamilyIfAbsent(family, keySchema, valueSchema, spec, several, isInternal)
    registered += register
    register(described)
  }

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] =
    new StateStoreIterator(changes(family).map { case (kind, key, value, _) =>
      require(kind != RecordType.MERGE_RECORD, s"$family has several values for a key")
      new UnsafeRowPair(key, if (value == null) ChangedState.Gone else value)
    })

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] = {
    val keys = mutable.LinkedHashSet.from(changes(family).map(_._2.copy()))
    new StateStoreIterator(keys.iterator.flatMap { key =>
      val values = if (whole.keyExists(key, family)) whole.valuesIterator(key, family) else Iterator.empty
      (Iterator.single(ChangedState.Gone) ++ values).map(value => new UnsafeRowPair(key, value))
    })
  }

  override def abort(): Unit = loaded.getOrElse(described).abort()

  private def whole: StateStore = {
    if (loaded.isEmpty) {
      described.abort()
      loaded = Some(load)
      registered.foreach(_(loaded.get))
    }
    loaded.get
  }
}

private class PatchedStore(store: StateStore) extends StoreOver(store) {
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit =
    if (ChangedState.isGone(value)) store.remove(key, family) else store.put(key, value, family)

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit =
    if (ChangedState.isGone(value)) store.remove(key, family) else store.merge(key, value, family)
}

/** A store that passes all calls on. */
private abstract class StoreOver(store: StateStore) extends StateStore {
  override def id: StateStoreId = store.id
  override def version: Long = store.version
  override def allColumnFamilyNames: Set[String] = store.allColumnFamilyNames
  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean): Unit =
    store.createColFamilyIfAbsent(
      family, keySchema, valueSchema, keyStateEncoderSpec, useMultipleValuesPerKey, isInternal)
  override def removeColFamilyIfExists(family: String): Boolean = store.removeColFamilyIfExists(family)

  override def get(key: UnsafeRow, family: String): UnsafeRow = store.get(key, family)
  override def keyExists(key: UnsafeRow, family: String): Boolean = store.keyExists(key, family)
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = store.valuesIterator(key, family)
  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = store.iterator(family)
  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    store.iteratorWithMultiValues(family)
  override def prefixScan(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    store.prefixScan(key, family)
  override def prefixScanWithMultiValues(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    store.prefixScanWithMultiValues(key, family)

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = store.put(key, value, family)
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    store.putList(key, values, family)
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = store.merge(key, value, family)
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    store.mergeList(key, values, family)
  override def remove(key: UnsafeRow, family: String): Unit = store.remove(key, family)

  override def commit(): Long = store.commit()
  override def abort(): Unit = store.abort()
  override def release(): Unit = store.release()
  override def hasCommitted: Boolean = store.hasCommitted
  override def metrics: StateStoreMetrics = store.metrics
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = store.getStateStoreCheckpointInfo()
}
