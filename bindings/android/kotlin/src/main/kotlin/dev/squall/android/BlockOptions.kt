package dev.squall.android

import kotlin.time.Duration

/**
 * How a block is sent. Immutable: one object may serve all blocks of a kind.
 *
 * @property deadline time from now until the block is worthless; both ends then drop it. Default: never
 * @property priority 0, the most important, to 7. Default: 3
 * @property reliable whether lost bytes are sent again. Default: yes
 * @property channel below 1,024. Default: 0
 * @property ordered whether the block is delivered after the previous ordered one of its channel. Default: no
 * @property partial whether the peer gets what arrived of it when it ends incomplete, by its deadline or by losses. Default: no
 */
public data class BlockOptions(
    val deadline: Duration = Duration.INFINITE,
    val priority: Int = 3,
    val reliable: Boolean = true,
    val channel: Int = 0,
    val ordered: Boolean = false,
    val partial: Boolean = false,
) {
    /** As the native library takes it: microseconds, at least one; or the number that stands for no deadline. */
    internal fun deadlineMicros(): Long = when {
        deadline.isInfinite() && deadline.isPositive() -> Session.NO_DEADLINE
        deadline.isPositive() -> deadline.inWholeMicroseconds.coerceAtLeast(1)
        else -> throw IllegalArgumentException("a deadline of ${deadline.inWholeMicroseconds} µs is in the past")
    }
}
