package dev.squall.android

import dev.squall.core.Event
import dev.squall.core.Event.Kind
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart.UNDISPATCHED
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.job
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.util.concurrent.Semaphore
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** Resources held by slow collectors, and left by ended sessions. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], manifest = Config.NONE, shadows = [ShadowDescriptor::class, ShadowBinding::class])
class BoundsTest {
    /** Bytes of the heap in use, without garbage. */
    private fun heap(): Long {
        repeat(3) { System.gc() }
        return Runtime.getRuntime().run { totalMemory() - freeMemory() }
    }

    @Test
    fun blocksThatAreNotTakenStayOutOfTheHeap() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            val count = 2000
            val received = ArrayList<Int>()
            val steps = Semaphore(1)
            val collects = async(Dispatchers.IO) {
                session.arrivals.take(count).collect {
                    steps.acquire()
                    received.add(it.data?.size ?: 0)
                }
            }
            val before = heap()
            // 20 MB go there and come back while the collector handles its first block.
            List(count) { session.send(ByteArray(10_000)) }.forEach { it.outcome() }
            // The peer's deadline is 10 s, so those that do not arrive by then are reported as missed.
            session.paths(every = POLL).first { paths -> paths.sumOf { it.dataReceived } >= count * 9_000L }
            val grown = heap() - before
            println("20 MB that are not taken: the heap grew by ${grown / 1000} kB")
            assertTrue(grown < 5_000_000, "the heap grew by $grown bytes")
            steps.release(count)
            collects.await()
            assertTrue(received.count { it == 10_000 } > count * 9 / 10, "${received.count { it == 10_000 }} blocks")
        }
    }

    @Test
    fun ofEventsThatWaitTheOldestAreDropped() = live { phone ->
        val session = phone.connectOverBoth(this)
        val gate = Job()
        val collects = async(start = UNDISPATCHED) {
            val kinds = ArrayList<Event>()
            session.events.collect {
                gate.join()
                kinds.add(it)
            }
            kinds
        }
        val blocks = List(2000) { session.send(byteArrayOf(1)) }
        blocks.forEach { it.outcome() }
        session.finish(LIMIT)
        gate.complete()
        val kinds = collects.await()
        assertTrue(kinds.size in 200..258, "${kinds.size} events")
        assertEquals(Kind.CLOSED, kinds.last().kind)
    }

    @Test
    fun aThousandSessionsLeaveNothingBehind() = live(limit = 20.minutes) { phone ->
        phone.networksCome()
        suspend fun cycles(count: Int) = repeat(count) { cycle ->
            val scope = CoroutineScope(Dispatchers.Default + Job())
            val session = phone.connect(scope)
            val block = session.send(byteArrayOf(1))
            when (cycle % 3) {
                0 -> session.close()
                1 -> session.finish(LIMIT)
                else -> {
                    block.outcome()
                    scope.cancel()
                }
            }
            session.closed()
            scope.cancel()
            scope.coroutineContext.job.join()
        }
        // Permanent objects are created once: threads of the runtimes, and files of classes.
        cycles(50)
        delay(2.seconds)
        val before = Held.now()
        val began = TimeSource.Monotonic.markNow()
        cycles(1000)
        println("1,000 sessions: ${began.elapsedNow().inWholeMilliseconds} ms")
        val end = TimeSource.Monotonic.markNow() + LIMIT
        var after = Held.now()
        while ((after.threads > before.threads || after.descriptors > before.descriptors) && end.hasNotPassedNow()) {
            delay(100.milliseconds)
            after = Held.now()
        }
        println("before $before, after $after")
        assertTrue(after.threads <= before.threads && after.descriptors <= before.descriptors, "$before, $after")
        assertTrue(Thread.getAllStackTraces().keys.none { it.name == "squall-ready" }, "the thread that waits ends")
    }
}
