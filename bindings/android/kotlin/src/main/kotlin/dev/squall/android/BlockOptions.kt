package dev.squall.android

import kotlin.time.Duration

/**
 * Options of a block. Immutable: one object may be used for all blocks of a kind.
 *
 * @property deadline time from now until the block is worthless; both ends then drop it. Default: never
 * @property priority 0, the most important, to 7. Default: 3
 * @property reliable true to send lost bytes again. Default: true
 * @property channel below 1,024. Default: 0
 * @property ordered true to deliver the block after the previous ordered one of its channel. Default: false
 * @property partial true to give the peer the part that arrived if it ends incomplete, by its deadline or by losses.
 * Default: false
 */
public data class BlockOptions(
    val deadline: Duration = Duration.INFINITE,
    val priority: Int = 3,
    val reliable: Boolean = true,
    val channel: Int = 0,
    val ordered: Boolean = false,
    val partial: Boolean = false,
) {
    /** Deadline for the native library: microseconds, at least one, or the value for no deadline. */
    internal fun deadlineMicros(): Long = when {
        deadline.isInfinite() && deadline.isPositive() -> Session.NO_DEADLINE
        deadline.isPositive() -> deadline.inWholeMicroseconds.coerceAtLeast(1)
        else -> throw IllegalArgumentException("a deadline of ${deadline.inWholeMicroseconds} µs is in the past")
    }
}
