package org.apache.spark.sql.rsassets

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, FilterFileSystem, Path}

import org.apache.spark.deploy.SparkHadoopUtil

/**
 * The session's local file system, whose folders list their entries by name.
 *
 * Spark's source of files takes those of the same millisecond in the order of the listing. A local folder has an order
 * of its own (in ext4 that of a hash), while HDFS and object stores list by name.
 *
 * It is meant for the options `fs.file.impl` and `fs.file.impl.disable.cache` of one reader.
 */
class FilesByName extends FilterFileSystem {
  override def initialize(name: URI, conf: Configuration): Unit = {
    setConf(conf)
    fs = FileSystem.get(name, SparkHadoopUtil.get.conf)
  }

  override def listStatus(path: Path): Array[FileStatus] = super.listStatus(path).sortBy(_.getPath.getName)

  /** The inner one is shared with the whole session. */
  override def close(): Unit = ()
}
