package dev.squall.android

import dev.squall.core.Event.Kind
import dev.squall.core.Reading.Technology
import dev.squall.core.SquallException
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart.UNDISPATCHED
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.MutableSharedFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.job
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.withTimeout
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.nio.ByteBuffer
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertNull
import kotlin.test.assertTrue
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** Sessions with the real native library over loopback. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], manifest = Config.NONE, shadows = [ShadowDescriptor::class, ShadowBinding::class])
class SquallSessionTest {
    private val soon = BlockOptions(deadline = 20.seconds, priority = 0, channel = 7)

    @Test
    fun blocksTravelAndReturnOverBothNetworks() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            val bytes = ByteArray(60_000) { 2 }
            val sent = session.send(bytes, soon)
            assertEquals("block 7 0 60000 120000", phone.peer.next("block"))
            assertEquals(Kind.DELIVERED, sent.outcome().kind)
            val back = session.blocks.first()
            assertEquals(7 to 0, back.channel to back.priority)
            assertContentEquals(bytes, back.data)
            assertEquals(setOf("wifi", "cellular"), session.paths().map { it.network }.toSet())

            val direct = ByteBuffer.allocateDirect(5).apply { position(1) }
            session.send(direct)
            assertEquals(0, direct.remaining())
            assertEquals("block 0 3 4 0", phone.peer.next("block"))
        }
        assertTrue(phone.peer.next("closed").contains("closed by the peer"))
    }

    @Test
    fun everyBlockHasItsOutcome() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            val blocks = List(500) { session.send(byteArrayOf(1), soon) }
            assertEquals(setOf(Kind.DELIVERED), blocks.map { it.outcome().kind }.toSet())
            assertEquals(500, blocks.map { it.number }.toSet().size)
            val large = session.send(ByteArray(8 shl 20), BlockOptions(deadline = 1.milliseconds))
            assertEquals(Kind.EXPIRED, large.outcome().kind)
            val cancelled = session.send(ByteArray(16 shl 20))
            session.cancel(cancelled)
            assertEquals(Kind.CANCELLED, cancelled.outcome().kind)
        }
    }

    @Test
    fun anEchoOfMoreThanTheQueuesHoldDoesNotStall() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            // 96 MiB, and the send queue has 64: `send` must wait, and the returned blocks must be taken meanwhile.
            val count = 12
            val sender = launch { repeat(count) { session.send(ByteArray(8 shl 20)) } }
            val sizes = session.arrivals.take(count).toList()
            assertEquals(count, sizes.size)
            sender.join()
        }
    }

    @Test
    fun aFullQueueMakesSendersWaitAndTrySendReturnNull() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            val block = ByteBuffer.allocateDirect(16 shl 20)
            while (session.trySend(block.rewind()) != null) {
                // More.
            }
            assertEquals(16 shl 20, block.remaining(), "the buffer is as it was")
            val waits = async(start = UNDISPATCHED) { session.send(block) }
            waits.await()
            assertEquals(0, block.remaining())
            // A waiting call can be cancelled; the session continues.
            while (session.trySend(block.rewind()) != null) {
                // More.
            }
            launch(start = UNDISPATCHED) { session.send(block) }.cancelAndJoin()
            assertEquals(2, session.paths().size)
        }
    }

    @Test
    fun cancellingTheScopeClosesTheSession() = live { phone ->
        val scope = CoroutineScope(Dispatchers.Default + Job())
        val session = phone.connectOverBoth(scope)
        val blocks = async { session.blocks.toList() }
        val events = async { session.events.toList() }
        // The last of as many blocks as the send queue holds: it is still open when the scope ends.
        val block = List(4) { session.send(ByteArray(15 shl 20)) }.last()
        val waits = async(start = UNDISPATCHED) { runCatching { block.outcome() } }
        scope.cancel()
        scope.coroutineContext.job.join()
        assertTrue(phone.peer.next("closed").contains("closed by the peer"))
        assertEquals("the session is closed", session.closed())
        assertEquals("the session is closed", waits.await().exceptionOrNull()?.message)
        blocks.await()
        events.await()
        assertEquals("the session is closed", assertFailsWith<SquallException> { session.send(byteArrayOf(1)) }.message)
        assertFailsWith<SquallException> { session.paths() }
        assertFailsWith<SquallException> { session.follow(Transport.WIFI, MutableSharedFlow()) }
        assertEquals(emptyList(), session.paths(every = 1.seconds).toList())
        assertEquals(emptyList(), session.events.toList())
        session.close()
    }

    @Test
    fun aScopeThatIsOverGetsNoSession() = live { phone ->
        phone.networksCome()
        val over = CoroutineScope(Job().apply { cancel() })
        assertFailsWith<CancellationException> { phone.connect(over) }
        assertTrue(phone.peer.next("closed").isNotEmpty())
    }

    @Test
    fun aScopeWaitsForItsSessionWhichEndsWithThePeer() = live { phone ->
        val reason = coroutineScope {
            val session = phone.connectOverBoth(this) { idleTimeout(3_000) }
            phone.peer.close()
            async { session.event(Kind.CLOSED).text to session.closed() }
        }.await()
        assertEquals(reason.first, reason.second)
        assertTrue(reason.first.isNotEmpty())
    }

    @Test
    fun blocksThatArrivedCanBeTakenAfterTheEnd() = live { phone ->
        val session = phone.connectOverBoth(this) { idleTimeout(3_000) }
        repeat(20) { session.send(byteArrayOf(it.toByte())) }
        session.paths(every = POLL).first { paths -> paths.sumOf { it.dataReceived } >= 20 }
        val first = session.blocks.first()
        phone.peer.close()
        session.closed()
        val all = (session.blocks.toList() + first).map { it.data[0].toInt() }
        assertEquals((0..19).toList(), all.sorted())
        assertEquals(listOf(Kind.CLOSED), session.events.toList().map { it.kind })
    }

    @Test
    fun finishingWaitsForTheBlocksAndTheirOutcomes() = live { phone ->
        val session = phone.connectOverBoth(this)
        val blocks = List(50) { session.send(ByteArray(20_000), soon) }
        session.finish(LIMIT)
        assertEquals(setOf(Kind.DELIVERED), blocks.map { it.outcome().kind }.toSet())
        assertTrue(phone.peer.next("closed").contains("closed by the peer"))
        assertFailsWith<SquallException> { session.finish(LIMIT) }
    }

    @Test
    fun finishingEndsWithItsTimeAndWithItsCoroutine() = live { phone ->
        phone.connectOverBoth(this).let { session ->
            phone.peer.close()
            session.send(ByteArray(1000))
            val late = assertFailsWith<SquallException> { session.finish(50.milliseconds) }
            assertEquals("1 blocks were still on their way after 50ms", late.message)
            session.closed()
        }
    }

    @Test
    fun cancellingFinishClosesAtOnce() = live { phone ->
        val session = phone.connectOverBoth(this)
        phone.peer.close()
        session.send(ByteArray(1000))
        val finishes = launch(start = UNDISPATCHED) { session.finish(Duration.INFINITE) }
        withTimeout(10.seconds) {
            finishes.cancelAndJoin()
            session.closed()
        }
    }

    @Test
    fun cancellingConnectEndsTheAttempt() = live { phone ->
        val before = TimeSource.Monotonic.markNow()
        val waitsForANetwork = launch(start = UNDISPATCHED) { phone.connect(this) { connectTimeout(60_000) } }
        delay(50.milliseconds)
        waitsForANetwork.cancelAndJoin()
        phone.networksCome()
        phone.peer.close()
        val waitsForAnAnswer = launch(start = UNDISPATCHED) { phone.connect(this) { connectTimeout(60_000) } }
        delay(300.milliseconds)
        waitsForAnAnswer.cancelAndJoin()
        assertTrue(before.elapsedNow() < 30.seconds)
    }

    @Test
    fun errorsHaveTheTextsOfJava() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            suspend fun refused(data: ByteArray, options: BlockOptions) =
                assertFailsWith<IllegalArgumentException> { session.send(data, options) }.message
            assertEquals("there is no priority 8", refused(ByteArray(1), BlockOptions(priority = 8)))
            assertEquals("there is no channel 1024", refused(ByteArray(1), BlockOptions(channel = 1024)))
            assertEquals(
                "a deadline of -1 µs is in the past",
                refused(ByteArray(1), BlockOptions(deadline = (-1e-6).seconds)),
            )
            refused(ByteArray(1), BlockOptions(deadline = Duration.ZERO))
            refused(ByteArray(0), BlockOptions())
            val large = assertFailsWith<SquallException> { session.send(ByteArray((16 shl 20) + 1)) }
            assertTrue(large.message!!.contains("exceeds the limit"), large.message)
            assertFailsWith<IllegalArgumentException> { session.setBudget(Transport.WIFI, -1) }
            session.setBudget(Transport.WIFI, 1)
            session.setBudget(Transport.WIFI, null)
        }
        val pin = assertFailsWith<SquallException> { phone.connect(this) { fingerprint("00".repeat(32)) } }
        assertTrue(pin.message!!.contains("is not the pinned one"), pin.message)
        val scheduler = assertFailsWith<IllegalArgumentException> { phone.connect(this) { scheduler("fastest") } }
        assertTrue(scheduler.message!!.contains("'fastest'"), scheduler.message)
        phone.wifi.goes()
        phone.cellular.goes()
        val none = assertFailsWith<SquallException> { phone.connect(this) { connectTimeout(100) } }
        assertEquals("no network within 100 ms", none.message)
    }

    @Test
    fun readingsOfAnOwnSourceMoveTheTraffic() = live { phone ->
        phone.connectOverBoth(this) { scheduler("rr") }.use { session ->
            val readings = MutableSharedFlow<dev.squall.core.Reading>(replay = 1)
            val follows = launch { session.follow(Transport.WIFI, readings) }
            suspend fun wifi(state: String) = session.paths(every = POLL)
                .first { paths -> paths.any { it.network == "wifi" && it.state == state } }
                .first { it.network == "wifi" }
            readings.emit(radioReading(Technology.WIFI, rssi = -50.0))
            session.paths(every = POLL).first { paths -> paths.any { it.network == "wifi" && it.signalQuality > 0.9 } }
            readings.emit(radioReading(Technology.WIFI, rssi = -88.0))
            val before = wifi("deactivated").dataSent
            repeat(10) { session.send(ByteArray(20_000)).outcome() }
            assertEquals(before, wifi("deactivated").dataSent)
            readings.emit(radioReading(Technology.WIFI, rssi = -50.0))
            wifi("active")
            // Without its source the radio has no effect after five seconds, whatever its last reading.
            readings.emit(radioReading(Technology.WIFI, rssi = -88.0))
            wifi("deactivated")
            follows.cancelAndJoin()
            wifi("active")
            // A flow without an end ends with the session.
            val lasts = launch(start = UNDISPATCHED) { session.follow(Transport.WIFI, readings) }
            session.close()
            lasts.join()
        }
    }

    @OptIn(ExperimentalCoroutinesApi::class)
    @Test
    fun pathsAreSampledAtTheirInterval() = Phone().use { phone ->
        // In virtual time: four samples are three hours apart at once.
        runTest(timeout = LIMIT) {
            val owner = CoroutineScope(Dispatchers.Default + Job())
            phone.networksCome()
            val session = phone.connect(owner)
            val began = currentTime
            assertEquals(4, session.paths(every = 60.minutes).take(4).toList().size)
            assertEquals(180.minutes, (currentTime - began).milliseconds)
            owner.cancel()
        }
    }

    @Test
    fun aNetworkThatReturnsIsUsedAgain() = live { phone ->
        phone.connectOverBoth(this).use { session ->
            val down = async(start = UNDISPATCHED) { session.event(Kind.PATH_DOWN) }
            phone.wifi.goes()
            down.await()
            session.paths(every = POLL).first { paths -> paths.map { it.network } == listOf("cellular") }
            phone.wifi.comes("127.0.0.4", false)
            session.paths(every = POLL).first { paths -> paths.any { it.local.startsWith("127.0.0.4:") } }
            assertNull(session.paths().find { it.local.startsWith("127.0.0.2:") })
        }
    }
}
