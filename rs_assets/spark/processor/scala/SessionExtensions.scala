package org.apache.spark.sql.rsassets

import java.net.URL
import java.util.{Collections, Enumeration}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSessionExtensionsProvider

/**
 * The extensions that a new session finds by itself. Those of Spark's machine learning register two functions of
 * vectors, for which Scala's reflection is loaded as a whole.
 */
object SessionExtensions {
  /** This thread makes sessions without them, until `asBefore`. */
  def withoutLearning(): Unit = {
    val thread = Thread.currentThread()
    thread.setContextClassLoader(new WithoutLearning(thread.getContextClassLoader))
  }

  def asBefore(): Unit = Thread.currentThread().getContextClassLoader match {
    case loader: WithoutLearning => Thread.currentThread().setContextClassLoader(loader.getParent)
    case _ =>
  }
}

/** All that `parent` has, but for the extensions of Spark's machine learning. */
private class WithoutLearning(parent: ClassLoader) extends ClassLoader(parent) {
  private val services = s"META-INF/services/${classOf[SparkSessionExtensionsProvider].getName}"

  // Without the lock of this loader, which defines no class.
  override protected def loadClass(name: String, resolve: Boolean): Class[_] = parent.loadClass(name)

  override def getResources(name: String): Enumeration[URL] = {
    val found = super.getResources(name)
    if (name != services) found
    else Collections.enumeration(found.asScala.filterNot(_.getPath.contains("/spark-mllib")).toSeq.asJava)
  }
}
