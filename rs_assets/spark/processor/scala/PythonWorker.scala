package org.apache.spark.sql.rsassets

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream, IOException}
import java.security.MessageDigest
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext

/**
 * What a Python worker runs: a module of the interpreter `python` that finds its modules at `path`, and a pickled
 * function. `died` and `hung` are the texts of the errors of a worker that ends or takes longer than `timeoutMs`.
 */
case class PythonCode(
    python: String,
    module: String,
    path: String,
    function: Array[Byte],
    timeoutMs: Long,
    died: String,
    hung: String) {

  /** Workers of equal digests are interchangeable. */
  val digest: String = {
    val content = MessageDigest.getInstance("SHA-256")
    Seq(python, module, path).foreach(text => content.update(text.getBytes("UTF-8")))
    content.digest(function).map(byte => f"$byte%02x").mkString
  }
}

/** A worker has ended without an answer. */
class WorkerDied(val exit: Int) extends RuntimeException(s"a Python worker ended with exit code $exit")

/** A Python process that answers frames, whose form is that of `rs_assets/compile/process/wire.py`. */
class PythonWorker(val code: PythonCode) {
  import PythonWorker._

  private val process = started()
  private val to = new DataOutputStream(new BufferedOutputStream(process.getOutputStream, BufferBytes))
  private val from = new DataInputStream(new BufferedInputStream(process.getInputStream, BufferBytes))
  private var number = 0L
  private var loaded = false
  private var asked = false

  /** Whether it waits for a frame, so that another task may use it. */
  def waits: Boolean = !asked && process.isAlive

  /** The answer to a batch at the watermark `now`. */
  def answer(batch: Array[Byte], now: Long): Array[Byte] = {
    if (!loaded) exchange(Load, code.function)
    loaded = true
    exchange(Batch, batch, Some(now))
  }

  def end(): Unit = process.destroyForcibly()

  /** Let it end by itself, because its input is over; it has a while for that. */
  def leave(): Unit = {
    to.close()
    Watches.begin(process, LeaveMs)
  }

  private def exchange(kind: Int, content: Array[Byte], now: Option[Long] = None): Array[Byte] = {
    number += 1
    asked = true
    val watch = Watches.begin(process, code.timeoutMs)
    val (answered, made) =
      try {
        to.writeLong(number)
        to.writeByte(kind)
        to.writeInt(content.length + now.size * java.lang.Long.BYTES)
        now.foreach(to.writeLong)
        to.write(content)
        to.flush()
        received()
      } catch {
        case _: IOException => throw failed(watch)
      } finally Watches.end(watch)
    asked = false
    if (answered == Failed) throw new RuntimeException(new String(made, "US-ASCII"))
    made
  }

  private def received(): (Int, Array[Byte]) = {
    val (answers, kind, length) = (from.readLong(), from.readByte().toInt, from.readInt())
    if (answers != number) {
      end()
      throw new IllegalStateException(s"a Python worker answered frame $answers, not $number")
    }
    val content = new Array[Byte](length)
    from.readFully(content)
    (kind, content)
  }

  private def failed(watch: Watch): RuntimeException = {
    end()
    process.waitFor(10, TimeUnit.SECONDS)
    if (watch.hung) new RuntimeException(code.hung) else new WorkerDied(process.exitValue())
  }

  private def started(): Process = {
    val builder = new ProcessBuilder(code.python, "-m", code.module)
    builder.environment().put("PYTHONPATH", code.path)
    // The order of sets must be the same in a batch that is computed again.
    builder.environment().put("PYTHONHASHSEED", "0")
    builder.redirectError(ProcessBuilder.Redirect.INHERIT).start()
  }
}

object PythonWorker {
  private val BufferBytes = 1 << 20
  private val Load = 0
  private val Batch = 1
  private val Failed = 3
  private val IdleMs = 60000L
  private val LeaveMs = 10000L
  private case class Idle(worker: PythonWorker, since: Long)
  private val idle = new ConcurrentLinkedDeque[Idle]()

  /** A worker for `code`: one that waits, else a new one. */
  def take(code: PythonCode): PythonWorker =
    idle.asScala.find(each => each.worker.code.digest == code.digest && idle.remove(each)).map(_.worker)
      .filter(_.waits).getOrElse(new PythonWorker(code))

  /** Keep a worker for later tasks, if it waits for a frame. */
  def give(worker: PythonWorker): Unit =
    if (worker.waits) idle.add(Idle(worker, Watches.now())) else worker.end()

  /** End the workers that were not used for a minute. */
  private[rsassets] def tidy(): Unit = {
    val old = Watches.now() - IdleMs
    idle.asScala.filter(_.since < old).foreach(each => if (idle.remove(each)) each.worker.leave())
  }
}

/** The worker of a task, which gives it back at its end. */
class TaskWorker(code: PythonCode) {
  private var worker = PythonWorker.take(code)
  TaskContext.get().addTaskCompletionListener[Unit](_ => PythonWorker.give(worker))

  /** A worker that dies has changed nothing, so another one gets the same batch; then the batch is to blame. */
  def answer(batch: Array[Byte], now: Long): Array[Byte] =
    try worker.answer(batch, now)
    catch {
      case _: WorkerDied if !TaskContext.get().isInterrupted() =>
        worker = new PythonWorker(code)
        try worker.answer(batch, now)
        catch { case died: WorkerDied => throw new RuntimeException(code.died.replace("{exit}", died.exit.toString)) }
    }
}

object TaskWorker {
  private val open = new ConcurrentHashMap[(Long, String), TaskWorker]()

  /** The worker that all users of `code` in the current task share. */
  def shared(code: PythonCode): TaskWorker = {
    val key = (TaskContext.get().taskAttemptId(), code.digest)
    Option(open.get(key)).getOrElse {
      val made = new TaskWorker(code)
      open.put(key, made)
      TaskContext.get().addTaskCompletionListener[Unit](_ => open.remove(key))
      made
    }
  }
}

/** An answer that is waited for; `hung` if it took too long. */
class Watch(process: Process, task: TaskContext, until: Long) {
  @volatile var hung = false

  /** Whether there is nothing more to look after. */
  def over: Boolean = !process.isAlive

  /** End the worker if its time is over, or if its task was cancelled. */
  def check(now: Long): Unit =
    if (now > until) {
      hung = true
      process.destroyForcibly()
    } else if (task != null && task.isInterrupted()) process.destroyForcibly()
}

/** A read from a pipe cannot be interrupted, so a thread looks after all workers that are asked. */
object Watches {
  private val EveryMs = 100L
  private val open = ConcurrentHashMap.newKeySet[Watch]()
  private lazy val thread = {
    val made = new Thread(() => watch(), "rs-assets Python workers")
    made.setDaemon(true)
    made.start()
    made
  }

  def begin(process: Process, timeoutMs: Long): Watch = {
    val made = new Watch(process, TaskContext.get(), Watches.now() + timeoutMs)
    open.add(made)
    require(thread.isAlive)
    made
  }

  def end(watch: Watch): Unit = open.remove(watch)

  /** Milliseconds of a clock that only goes forward. */
  def now(): Long = System.nanoTime() / 1000000

  private def watch(): Unit = while (true) {
    Thread.sleep(EveryMs)
    open.removeIf(_.over)
    open.forEach(_.check(now()))
    PythonWorker.tidy()
  }
}
