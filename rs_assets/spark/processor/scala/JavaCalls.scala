package org.apache.spark.sql.rsassets

import java.io.File
import java.lang.reflect.{InvocationTargetException, Method}
import java.net.URLClassLoader
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.types.{DataType, DateType, TimestampType}

/** A class in jars of a user: `code` identifies its content, `label` is its name for people. */
case class JavaTarget(code: String, label: String, jars: String, className: String, method: String)

/**
 * A call of the only public method of its name, on an object that each task makes.
 *
 * `needs` says by 1 for which arguments a null makes the result null without a call.
 */
case class JavaCall(target: JavaTarget, needs: String, dataType: DataType, children: Seq[Expression])
    extends Expression
    with CodegenFallback {
  @transient private lazy val made = JavaCalls.made(target)
  @transient private lazy val called = JavaCalls.method(made.getClass, target.method)
  @transient private lazy val toJava =
    children.zip(called.getParameterTypes).map { case (each, wanted) => JavaCalls.toJava(each.dataType, wanted) }.toArray
  @transient private lazy val toSpark = JavaCalls.toSpark(dataType)

  override def nullable: Boolean = true
  override def prettyName: String = target.label

  override def eval(row: InternalRow): Any = {
    val values = new Array[AnyRef](children.length)
    var at = 0
    while (at < values.length) {
      values(at) = toJava(at)(children(at).eval(row)).asInstanceOf[AnyRef]
      if (values(at) == null && needs(at) == '1') return null
      at += 1
    }
    try toSpark(called.invoke(made, values: _*))
    catch {
      case error: InvocationTargetException =>
        val types = children.map(_.dataType.catalogString).mkString(", ")
        throw QueryExecutionErrors.failedExecuteUserDefinedFunctionError(
          target.label,
          types,
          dataType.catalogString,
          error.getCause
        )
    }
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): JavaCall =
    copy(children = newChildren)
}

object JavaCalls {
  // A jar that is replaced has another code, and so another loader.
  private val loaders = new ConcurrentHashMap[String, ClassLoader]

  /** Makes a function of a session; an object is made at once, so that a class that cannot be loaded is said here. */
  def register(
      session: SparkSession,
      name: String,
      label: String,
      jars: String,
      className: String,
      method: String,
      needs: String,
      returns: String
  ): Unit = {
    val (target, kind) = (JavaTarget(name, label, jars, className, method), DataType.fromDDL(returns))
    this.method(made(target).getClass, method)
    session.sessionState.functionRegistry
      .createOrReplaceTempFunction(name, children => JavaCall(target, needs, kind, children), "scala_udf")
  }

  def made(target: JavaTarget): AnyRef = {
    val loader = loaders.computeIfAbsent(
      target.code,
      _ => {
        val places = target.jars.split(File.pathSeparator).map(new File(_).toURI.toURL)
        new URLClassLoader(places, getClass.getClassLoader)
      }
    )
    Class.forName(target.className, true, loader).getDeclaredConstructor().newInstance().asInstanceOf[AnyRef]
  }

  def method(kind: Class[_], name: String): Method =
    kind.getDeclaredMethods.find(each => each.getName == name && !each.isBridge && !each.isSynthetic).get

  /** Times are instants, or without a zone in UTC, whatever the session says. */
  def toJava(kind: DataType, wanted: Class[_]): Any => Any = kind match {
    case TimestampType if wanted == classOf[LocalDateTime] =>
      unlessNull(value => LocalDateTime.ofInstant(DateTimeUtils.microsToInstant(value.asInstanceOf[Long]), ZoneOffset.UTC))
    case TimestampType => unlessNull(value => DateTimeUtils.microsToInstant(value.asInstanceOf[Long]))
    case DateType => unlessNull(value => DateTimeUtils.daysToLocalDate(value.asInstanceOf[Int]))
    case _ => CatalystTypeConverters.createToScalaConverter(kind)
  }

  def toSpark(kind: DataType): Any => Any = kind match {
    case TimestampType =>
      unlessNull {
        case at: LocalDateTime => DateTimeUtils.instantToMicros(at.toInstant(ZoneOffset.UTC))
        case at: Instant => DateTimeUtils.instantToMicros(at)
      }
    case DateType => unlessNull { case day: LocalDate => DateTimeUtils.localDateToDays(day) }
    case _ => CatalystTypeConverters.createToCatalystConverter(kind)
  }

  private def unlessNull(convert: Any => Any): Any => Any = value => if (value == null) null else convert(value)
}
