package dev.squall.sample

import dev.squall.core.Event.Kind
import kotlin.time.Duration

/** Outcomes of the pictures. May be used from all threads. */
internal class Delivery {
    private val outcomes = IntArray(Kind.entries.size)
    private var skipped = 0

    /** The latest times from sending to the confirmation, oldest first. */
    private val times = ArrayDeque<Duration>()

    /** Called when a picture had no room in the send queue, or could not be decoded without an earlier one. */
    @Synchronized
    fun skipped() {
        skipped++
    }

    /** Called with the outcome of a picture, and the time since it was sent. */
    @Synchronized
    fun ended(kind: Kind, after: Duration) {
        outcomes[kind.ordinal]++
        if (kind == Kind.DELIVERED) {
            times.addLast(after)
            if (times.size > LATEST) {
                times.removeFirst()
            }
        }
    }

    /** Returns a text for users. */
    @Synchronized
    override fun toString(): String {
        val delivered = outcomes[Kind.DELIVERED.ordinal]
        val sorted = times.sorted()
        val latency = if (sorted.isEmpty()) {
            ""
        } else {
            val median = sorted[sorted.size / 2].inWholeMilliseconds
            val late = sorted[sorted.size * 95 / 100].inWholeMilliseconds
            ", confirmed after $median ms (median), $late ms (95 %)"
        }
        return "$delivered delivered, ${outcomes.sum() - delivered} late or lost, $skipped skipped$latency"
    }

    private companion object {
        /** Ten seconds of pictures. */
        const val LATEST = 300
    }
}
