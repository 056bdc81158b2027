package org.apache.spark.sql.rsassets

import java.io.File
import java.lang.invoke.MethodType
import java.lang.reflect.{InvocationTargetException, Method}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.security.MessageDigest
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.types.{BinaryType, DataType, DateType, TimestampType}
import org.apache.spark.util.ChildFirstURLClassLoader

class OtherJarException(message: String) extends IllegalStateException(message)
class NotRepeatableException(message: String) extends IllegalStateException(message)

/**
 * A class in jars of a user, whose paths are lines: `code` ends with a digest of their content, `label` is its name for
 * people, `method` a name with its descriptor.
 */
case class JavaTarget(code: String, label: String, jars: String, className: String, method: String)

/**
 * A call of a method of an object that each task makes.
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
    try toSpark(JavaCalls.within(made.getClass.getClassLoader)(called.invoke(made, values: _*)))
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
  private val Digits = 12

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
    val one = made(target)
    this.method(one.getClass, method)
    if (!isRepeatable(one)) {
      throw new NotRepeatableException("its isDeterministic() is false, but a batch that comes again has the same rows")
    }
    session.sessionState.functionRegistry
      .createOrReplaceTempFunction(name, children => JavaCall(target, needs, kind, children), "scala_udf")
  }

  def made(target: JavaTarget): AnyRef = {
    val loader = loaders.computeIfAbsent(target.code, _ => loaderOf(target))
    within(loader) {
      try Class.forName(target.className, true, loader).getDeclaredConstructor().newInstance().asInstanceOf[AnyRef]
      catch {
        case error: InvocationTargetException => throw error.getCause
        case error: ExceptionInInitializerError if error.getCause != null => throw error.getCause
      }
    }
  }

  /** What the jars have comes before what Spark has: other versions of libraries, and the class itself. */
  private def loaderOf(target: JavaTarget): ClassLoader = {
    val jars = target.jars.split('\n').map(new File(_))
    if (!target.code.endsWith("_" + digest(target.className, jars))) {
      val places = jars.mkString(", ")
      throw new OtherJarException(s"$places has another content than when the pipeline was built")
    }
    new ChildFirstURLClassLoader(jars.map(_.toURI.toURL), getClass.getClassLoader)
  }

  /** As `java` of rs_assets/udf/java.py makes it. */
  private def digest(className: String, jars: Seq[File]): String = {
    val whole = MessageDigest.getInstance("SHA-256")
    whole.update(className.getBytes(UTF_8))
    jars.foreach(jar => whole.update(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(jar.toPath))))
    whole.digest().map(each => f"${each & 0xff}%02x").mkString.take(Digits)
  }

  private def isRepeatable(made: AnyRef): Boolean =
    made.getClass.getMethods
      .find(each => each.getName == "isDeterministic" && each.getParameterCount == 0)
      .forall(each => each.invoke(made) != java.lang.Boolean.FALSE)

  /** Libraries look for services in the loader of the thread. */
  def within[T](loader: ClassLoader)(body: => T): T = {
    val (thread, before) = (Thread.currentThread, Thread.currentThread.getContextClassLoader)
    thread.setContextClassLoader(loader)
    try body
    finally thread.setContextClassLoader(before)
  }

  def method(kind: Class[_], wanted: String): Method =
    kind.getDeclaredMethods.find(each => each.getName + descriptor(each) == wanted).get

  private def descriptor(method: Method): String =
    MethodType.methodType(method.getReturnType, method.getParameterTypes).toMethodDescriptorString

  /** Times are instants, or without a zone in UTC, whatever the session says. */
  def toJava(kind: DataType, wanted: Class[_]): Any => Any = kind match {
    case TimestampType if wanted == classOf[LocalDateTime] =>
      unlessNull(value => LocalDateTime.ofInstant(DateTimeUtils.microsToInstant(value.asInstanceOf[Long]), ZoneOffset.UTC))
    case TimestampType => unlessNull(value => DateTimeUtils.microsToInstant(value.asInstanceOf[Long]))
    case DateType => unlessNull(value => DateTimeUtils.daysToLocalDate(value.asInstanceOf[Int]))
    // A method may change what it gets.
    case BinaryType => unlessNull(_.asInstanceOf[Array[Byte]].clone())
    case _ => CatalystTypeConverters.createToScalaConverter(kind)
  }

  def toSpark(kind: DataType): Any => Any = kind match {
    case TimestampType =>
      unlessNull {
        case at: LocalDateTime => DateTimeUtils.instantToMicros(at.toInstant(ZoneOffset.UTC))
        case at: Instant => DateTimeUtils.instantToMicros(at)
      }
    case DateType => unlessNull { case day: LocalDate => DateTimeUtils.localDateToDays(day) }
    case BinaryType => unlessNull(_.asInstanceOf[Array[Byte]].clone())
    case _ => CatalystTypeConverters.createToCatalystConverter(kind)
  }

  private def unlessNull(convert: Any => Any): Any => Any = value => if (value == null) null else convert(value)
}
