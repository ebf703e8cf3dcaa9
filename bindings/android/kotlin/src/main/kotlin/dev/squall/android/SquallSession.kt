package dev.squall.android

import dev.squall.core.Event
import dev.squall.core.Event.Kind
import dev.squall.core.Native
import dev.squall.core.PathInfo
import dev.squall.core.QueueFullException
import dev.squall.core.Reading
import dev.squall.core.Reading.Technology
import dev.squall.core.SquallException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.asExecutor
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableSharedFlow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.onSubscription
import kotlinx.coroutines.flow.transformWhile
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch
import kotlinx.coroutines.runInterruptible
import kotlinx.coroutines.suspendCancellableCoroutine
import java.nio.ByteBuffer
import kotlin.time.Duration

/**
 * A session as coroutines and flows: a thin layer on [Session]. May be used from all threads, including the main
 * thread.
 *
 * The session is one of the jobs of the scope passed to [connect]: cancelling the scope closes the session and frees
 * its objects in the native library. It ends by itself when the peer closes it or the networks stay unavailable;
 * otherwise [close] or [finish] ends it, and a `coroutineScope` does not return earlier.
 *
 * Errors have the types and texts of the Java half: [SquallException], [QueueFullException], [IllegalArgumentException].
 */
public class SquallSession private constructor(private val java: Session, scope: CoroutineScope) : AutoCloseable {
    private val number = java.number()

    /** Incremented whenever the native library has an event, or the state below changes. */
    private val version = MutableStateFlow(0L)

    /** Incremented whenever there is room in the send queue after it was full. */
    private val room = MutableStateFlow(0L)

    /** The events, followed by null. */
    private val reports = MutableSharedFlow<Event?>(
        extraBufferCapacity = EVENTS,
        onBufferOverflow = BufferOverflow.DROP_OLDEST,
    )

    /** Guards [rest], [last] and [blocksOnTheWay], and orders the end of a block after its number is known here. */
    private val lock = Any()
    private val blocksOnTheWay = OpenBlocks()

    /** Arrivals that were not taken when the session ended; null before. The native library bounds them. */
    private var rest: ArrayDeque<Event>? = null
    private var last: Event? = null

    @Volatile
    private var isOver = false

    @Volatile
    private var isFinishing = false

    private val job: Job

    init {
        Wakers.watch(number, ::wake)
        job = scope.launch(Dispatchers.Default) { serve() }
        // Runs at the end of the job in every case, even if the scope has ended already.
        job.invokeOnCompletion { release() }
    }

    /**
     * The peer's blocks in order of arrival, until the session has ended; blocks that will not arrive are left out.
     * Each block is passed to one collector, and taken only on demand: blocks that are not taken apply back pressure to
     * the peer, and the end of the session is reported after them. Closing this side drops them.
     */
    public val blocks: Flow<ReceivedBlock>
        get() = arrivals.filter { it.kind == Kind.RECEIVED }
            .map { ReceivedBlock(it.block, it.channel, it.priority, it.data, it.missing) }

    /** As [blocks], including those that will not arrive: events of the kinds `RECEIVED` and `MISSED`. */
    public val arrivals: Flow<Event> = flow {
        while (true) {
            val seen = version.value
            val wasOver = isOver
            val event = nextArrival()
            when {
                event != null -> emit(event)
                wasOver -> return@flow
                else -> version.first { it != seen }
            }
        }
    }

    /**
     * All other events from now on, for any number of collectors. `CLOSED` is the last, unless this side closes the
     * session. A slow collector does not delay others: of more than 256 events queued for it the oldest are dropped.
     * [SentBlock.outcome] is never dropped.
     */
    public val events: Flow<Event> = reports
        .onSubscription {
            if (isOver) {
                synchronized(lock) { last }?.let { emit(it) }
                emit(null)
            }
        }
        .transformWhile { event ->
            event?.let { emit(it) }
            event != null
        }

    /**
     * Sends the bytes between position and limit of a buffer as one block; the position is at the limit afterwards.
     * Waits while the send queue is full, and does not change the buffer before that.
     *
     * @throws SquallException if the session is over or the block too large
     * @throws IllegalArgumentException if the buffer is empty, or there is no such priority, channel or deadline
     */
    public suspend fun send(data: ByteBuffer, options: BlockOptions = BlockOptions()): SentBlock {
        while (true) {
            currentCoroutineContext().ensureActive()
            val seen = room.value
            trySend(data, options)?.let { return it }
            room.first { it != seen }
        }
    }

    /** As the other overload, with the bytes of an array, which may be changed afterwards. */
    public suspend fun send(data: ByteArray, options: BlockOptions = BlockOptions()): SentBlock =
        send(ByteBuffer.wrap(data), options)

    /**
     * As [send], with the same errors, but returns null if the queue is full. A live source should then drop a frame.
     */
    public fun trySend(data: ByteBuffer, options: BlockOptions = BlockOptions()): SentBlock? = synchronized(lock) {
        try {
            val block = options.run {
                java.send(data, deadlineMicros(), priority, reliable, channel, ordered, partial)
            }
            blocksOnTheWay.add(block)
        } catch (_: QueueFullException) {
            null
        }
    }

    /**
     * Cancels a block. Its outcome is `CANCELLED`, unless it ended earlier.
     *
     * @throws SquallException if the session is over
     */
    public fun cancel(block: SentBlock) {
        java.cancel(block.number)
    }

    /**
     * Returns the open paths.
     *
     * @throws SquallException if the session is over
     */
    public fun paths(): List<PathInfo> = java.paths().asList()

    /** The open paths, now and at an interval, until the session has ended. */
    public fun paths(every: Duration): Flow<List<PathInfo>> = flow {
        while (!isOver) {
            val paths = try {
                paths()
            } catch (_: SquallException) {
                break
            }
            emit(paths)
            delay(every)
        }
    }

    /**
     * Limits the bytes that this side may send over networks of a kind in this session; null for no limit. If the
     * scheduler has a cap too, the smaller of the two applies.
     *
     * @throws SquallException if the session is over, or has no such network now
     * @throws IllegalArgumentException if the number is negative
     */
    public fun setBudget(transport: Transport, bytes: Long?) {
        require(bytes == null || bytes >= 0) { "a budget of $bytes bytes is negative" }
        java.setBudget(transport, bytes ?: -1)
    }

    /**
     * Uses the readings of an application's own source for networks of a kind, instead of those of [Signals]. Returns
     * when the flow or the session ends; the networks then have no radio, and the effect of its last reading ends five
     * seconds later. A reading only stores numbers, so a fast source is harmless.
     *
     * @throws SquallException if the session is over
     */
    public suspend fun follow(transport: Transport, readings: Flow<Reading>): Unit = coroutineScope {
        val radio = Radio(Technology.UNKNOWN)
        try {
            Native.setSignal(number, transport.label, radio.number())
            val source = launch { readings.collect(radio::push) }
            val end = job.invokeOnCompletion { source.cancel() }
            source.join()
            end.dispose()
        } finally {
            try {
                Native.setSignal(number, transport.label, 0)
            } catch (_: SquallException) {
                // The session has ended, and with it its networks.
            }
            radio.close()
        }
    }

    /** Waits until the session has ended; returns the reason. Cancelling the wait does not affect the session. */
    public suspend fun closed(): String {
        job.join()
        return synchronized(lock) { last }?.text ?: CLOSED_HERE
    }

    /**
     * Waits until every block has ended, then closes the session. Cancelling the wait closes it at once. Blocks of the
     * peer that were not taken are dropped.
     *
     * @throws SquallException if blocks are still open after the timeout, or the session ends first; it is closed in
     * that case too
     */
    public suspend fun finish(timeout: Duration) {
        try {
            suspendCancellableCoroutine { waits ->
                // Closing ends the call below.
                waits.invokeOnCancellation { close() }
                Dispatchers.IO.asExecutor().execute {
                    waits.resumeWith(runCatching { Native.finish(number, timeout.inWholeMicroseconds) })
                }
            }
        } finally {
            isFinishing = true
            wake()
        }
        // The outcomes of the last blocks arrive before the end.
        job.join()
    }

    /** Closes the session at once; unfinished blocks end with it. Has no effect after the end. */
    override fun close() {
        release()
        job.cancel()
    }

    private fun wake() {
        version.update { it + 1 }
    }

    /** Takes events in order of arrival, until the session has ended. */
    private suspend fun serve() {
        while (!isOver) {
            val seen = version.value
            if (!takeEvents()) {
                return
            }
            if (isFinishing) {
                while (nextArrival() != null) {
                    // The application has closed the flow.
                }
            }
            version.first { it != seen }
        }
    }

    /** Handles the queued events; returns false if no more can follow. */
    private fun takeEvents(): Boolean {
        while (true) {
            val event = try {
                Native.take(number, false) ?: return true
            } catch (_: SquallException) {
                return false
            }
            when (event.kind) {
                Kind.DELIVERED, Kind.EXPIRED, Kind.LOST, Kind.CANCELLED, Kind.REFUSED ->
                    synchronized(lock) { blocksOnTheWay.end(event) }
                Kind.WRITABLE -> room.update { it + 1 }
                Kind.CLOSED -> synchronized(lock) {
                    last = event
                    rest = untaken()
                }
                else -> Unit
            }
            reports.tryEmit(event)
        }
    }

    /** Returns the events left in the native library. Called after the session has ended, so no more follow. */
    private fun untaken(): ArrayDeque<Event> {
        val events = ArrayDeque<Event>()
        try {
            while (true) {
                events.add(Native.take(number, true) ?: break)
            }
        } catch (_: SquallException) {
            // There are no further events.
        }
        return events
    }

    private fun nextArrival(): Event? = synchronized(lock) {
        val ended = rest
        if (ended != null) {
            return ended.removeFirstOrNull()
        }
        try {
            Native.take(number, true)
        } catch (_: SquallException) {
            null
        }
    }

    /** Frees the objects of the session, and resumes waiting callers. */
    private fun release() {
        synchronized(lock) {
            if (isOver) {
                return
            }
            Wakers.forget(number)
            java.close()
            rest = rest ?: ArrayDeque()
            isOver = true
            blocksOnTheWay.fail(SquallException(CLOSED_HERE))
        }
        reports.tryEmit(null)
        // Waiting senders retry, and get the error that the session has ended.
        room.update { it + 1 }
        wake()
    }

    public companion object {
        /** Maximum number of events queued for a slow collector. */
        private const val EVENTS = 256

        private const val CLOSED_HERE = "the session is closed"

        /**
         * Connects over all available networks at once; networks that appear later are added. Waits for the first network, and
         * then for the handshake. Cancelling the wait ends the attempt.
         *
         * @param host `host:port`: a name, an IPv4 address, or an IPv6 address in brackets
         * @param networks the networks to use; keep them open as long as the session
         * @param scope the session's scope; cancelling it closes the session
         * @param signals the radios whose readings the session uses; null for none
         * @param configure the other settings, on a thread for blocking work. A kind of trust is required:
         * `platformRoots()`,
         * `roots(…)` or `fingerprint(…)`
         * @throws SquallException if no network comes up, or the server cannot be reached or trusted
         * @throws IllegalArgumentException if a setting is wrong
         */
        public suspend fun connect(
            host: String,
            networks: Networks,
            scope: CoroutineScope,
            signals: Signals? = null,
            configure: Session.Builder.() -> Unit,
        ): SquallSession {
            var opened: Session? = null
            try {
                runInterruptible(Dispatchers.IO) {
                    opened = Session.Builder(host).apply(configure).connect(networks, signals)
                }
                scope.ensureActive()
                return SquallSession(checkNotNull(opened), scope)
            } catch (error: Exception) {
                opened?.close()
                // The interrupt of a cancelled attempt appears as another error.
                currentCoroutineContext().ensureActive()
                throw error
            }
        }
    }
}
