package org.apache.spark.sql.rsassets

object PythonSources {
  private val Monitor = "org.apache.spark.api.python.PythonWorkerFactory$MonitorThread"

  /**
   * End the threads that look for idle workers where there are none to be kept: those of Python sources, each of which
   * starts a process of its own. Spark starts such a thread with each query over a Python source and never ends it; it
   * keeps the session of the query alive. Returns how many were ended.
   */
  def endMonitors(): Int = {
    val monitors = threads.filter(thread => thread.getClass.getName == Monitor && !keepsWorkers(thread))
    monitors.foreach { thread =>
      // It sleeps, and ends by the interrupt.
      thread.setUncaughtExceptionHandler((_, _) => ())
      thread.interrupt()
    }
    monitors.size
  }

  private def threads: Seq[Thread] = {
    val root = Iterator.iterate(Thread.currentThread.getThreadGroup)(_.getParent).takeWhile(_ != null).toSeq.last
    // There may be more in a moment; what does not fit is left out, and ended by a later call.
    val found = new Array[Thread](2 * root.activeCount + 8)
    found.take(root.enumerate(found, true)).toSeq
  }

  /** Whether the factory of a monitor forks its workers from a daemon, and keeps them for the next task. */
  private def keepsWorkers(monitor: Thread): Boolean = {
    val outer = monitor.getClass.getField("$outer").get(monitor)
    val useDaemon = outer.getClass.getDeclaredField("useDaemon")
    useDaemon.setAccessible(true)
    useDaemon.getBoolean(outer)
  }
}
