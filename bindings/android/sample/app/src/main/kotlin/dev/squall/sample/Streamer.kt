package dev.squall.sample

import dev.squall.android.BlockOptions
import dev.squall.android.SquallSession
import dev.squall.core.Event.Kind
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.launch
import java.nio.ByteBuffer
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.TimeSource

/**
 * Sends access units as blocks: one each, in order, with a deadline.
 *
 * @param deadline time from sending until a picture is worthless. A viewer can follow with a delay of a quarter of a
 * second
 * @param requestKey requests a key frame from the encoder, after the loss of a picture that later ones need
 */
internal class Streamer(
    private val session: SquallSession,
    deadline: Duration = 250.milliseconds,
    private val requestKey: () -> Unit,
) {
    val delivery = Delivery()

    private val key = BlockOptions(deadline, priority = 0, ordered = true)
    private val other = key.copy(priority = 2)

    /** Sends until the flow ends; then waits for the outcomes. */
    suspend fun send(units: Flow<AccessUnit>) = coroutineScope {
        var waitsForKey = true
        units.collect { unit ->
            val block = if (waitsForKey && !unit.isKey) {
                null
            } else {
                // A live picture does not wait for room: the next one is worth more.
                session.trySend(ByteBuffer.wrap(unit.bytes), if (unit.isKey) key else other)
            }
            if (block == null) {
                delivery.skipped()
                if (!waitsForKey) {
                    requestKey()
                }
                waitsForKey = true
                return@collect
            }
            waitsForKey = false
            val sent = TimeSource.Monotonic.markNow()
            launch {
                val kind = block.outcome().kind
                delivery.ended(kind, sent.elapsedNow())
                if (kind != Kind.DELIVERED) {
                    requestKey()
                }
            }
        }
    }
}
