package dev.squall.android

import dev.squall.core.Event
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Deferred

/**
 * A block sent by the peer.
 *
 * @property number the block's number at its sender
 * @property channel below 1,024
 * @property priority 0, the most important, to 7
 * @property data its bytes, with zeros for missing ones; they belong to the receiver of this object
 * @property missing the missing ranges of a partial block, as in `Event.missing`; empty if it is complete
 */
public class ReceivedBlock internal constructor(
    public val number: Long,
    public val channel: Int,
    public val priority: Int,
    public val data: ByteArray,
    public val missing: IntArray,
) {
    override fun toString(): String = "block $number: ${data.size} bytes on channel $channel"
}

/**
 * A block that was submitted. Dropping this object has no effect on the block.
 *
 * @property number the block's number, as in events and for [SquallSession.cancel]
 */
public class SentBlock internal constructor(public val number: Long, private val end: Deferred<Event>) {
    /**
     * Waits for the outcome: an event of the kind `DELIVERED`, `EXPIRED`, `LOST`, `CANCELLED` or `REFUSED`. Cancelling
     * the wait does not cancel the block.
     *
     * @throws dev.squall.core.SquallException if this side closed the session first
     */
    public suspend fun outcome(): Event = end.await()

    override fun toString(): String = "block $number"
}

/** Blocks without a reported outcome. Accessed under the lock of the session. */
internal class OpenBlocks {
    private val open = HashMap<Long, CompletableDeferred<Event>>()

    fun add(number: Long): SentBlock = SentBlock(number, open.getOrPut(number, ::CompletableDeferred))

    fun end(event: Event) {
        open.remove(event.block)?.complete(event)
    }

    fun fail(error: Exception) {
        open.values.forEach { it.completeExceptionally(error) }
        open.clear()
    }
}
