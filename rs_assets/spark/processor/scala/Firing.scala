package org.apache.spark.sql.rsassets

/**
 * When a window fires, in milliseconds of a clock that shows the greatest event time seen.
 *
 * Windows start every `slide`. A window closes `delay` after its end; rows that arrive later are late. Its final
 * firing comes `waits` after its end (at most `delay`); further firings follow every `after` until it closes. Before
 * that it fires every `before` from its start, `limit` after its first row that was not yet emitted, and, if `atEnd`,
 * at its end and then at the end of each later window. A time of 0 means never.
 *
 * `deltas`: a firing covers only the rows since the previous one. `updates`: the window is emitted in each batch that
 * changes it (1), at each row (2), once, in the batch after which its last column is true (3), or neither (0).
 * `finals`: it is emitted when it closes.
 */
case class Firing(
    slide: Long,
    waits: Long,
    delay: Long,
    before: Long,
    after: Long,
    limit: Long,
    atEnd: Boolean,
    deltas: Boolean,
    updates: Int,
    finals: Boolean) {

  /** When a window that ends at `end` closes. */
  def close(end: Long): Long = end + delay

  /** When a window that got rows at `now` fires next: after `now`, or when it closes. */
  def next(start: Long, end: Long, now: Long): Long = {
    val regular = end + waits
    val times = Seq(
      Option.when(before > 0)(following(start, before, now)).filter(_ < regular),
      Option.when(atEnd)(if (now < end) end else following(end, slide, now)),
      Option.when(updates == 0 && now < regular)(regular),
      Option.when(after > 0 && now >= regular)(following(regular, after, now)),
      Option.when(limit > 0)(math.max(now, start) + limit)).flatten
    times.minOption.fold(close(end))(math.min(_, close(end)))
  }

  /** The first of `first + step`, `first + 2 * step`, ... that is after `now`. */
  private def following(first: Long, step: Long, now: Long): Long =
    if (now < first) first + step else first + ((now - first) / step + 1) * step
}
