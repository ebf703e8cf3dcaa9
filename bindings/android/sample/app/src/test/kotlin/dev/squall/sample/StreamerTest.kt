// The simulated phone is visible only in this package.
package dev.squall.android

import android.net.ConnectivityManager
import dev.squall.sample.AccessUnit
import dev.squall.sample.Delivery
import dev.squall.sample.Streamer
import dev.squall.core.Event.Kind
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import java.io.File
import java.nio.file.Files
import java.util.concurrent.atomic.AtomicInteger
import kotlin.random.Random
import kotlin.test.AfterTest
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** The pictures' path from the encoder to the receiver, without the encoder. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], manifest = Config.NONE, shadows = [ShadowDescriptor::class, ShadowBinding::class])
class StreamerTest {
    private val folder = Files.createTempDirectory("squall").toFile()
    private val received = File(folder, "received.h264")
    private val receiver = ProcessBuilder(System.getProperty("squall.receiver"), "127.0.0.1:0")
        .directory(folder)
        .redirectOutput(received)
        .start()
    private val log = receiver.errorStream.bufferedReader()

    /** Pictures of several packets each, with a key frame in every tenth place. */
    private fun pictures(count: Int) = List(count) { AccessUnit(Random(it).nextBytes(1000 + 500 * it), it % 10 == 0) }

    private fun stream(deadline: Duration, test: suspend (SquallSession, Streamer, AtomicInteger) -> Unit) {
        val (_, address, pin) = log.readLine().split(" ")
        val context = RuntimeEnvironment.getApplication()
        val connectivity = context.getSystemService(ConnectivityManager::class.java)
        Networks.request(context).use { networks ->
            FakeNetwork(connectivity, Transport.WIFI, 200).comes("127.0.0.2", false)
            FakeNetwork(connectivity, Transport.CELLULAR, 100).comes("127.0.0.3", true)
            runBlocking(Dispatchers.Default) {
                withTimeout(60.seconds) {
                    SquallSession.connect(address, networks, this) { fingerprint(pin) }.use { session ->
                        val requests = AtomicInteger()
                        test(session, Streamer(session, deadline) { requests.incrementAndGet() }, requests)
                    }
                }
            }
        }
    }

    @AfterTest
    fun stop() {
        receiver.destroy()
        receiver.waitFor()
        folder.deleteRecursively()
    }

    @Test
    fun everyPictureReachesTheReceiverInOrder() = stream(30.seconds) { session, streamer, requests ->
        val pictures = pictures(40)
        streamer.send(flow { pictures.forEach { emit(it) } })
        session.finish(30.seconds)
        assertTrue(log.readLine().startsWith("closed"))
        assertContentEquals(pictures.map { it.bytes }.reduce(ByteArray::plus), received.readBytes())
        assertEquals(0, requests.get())
        assertTrue(streamer.delivery.toString().startsWith("40 delivered, 0 late or lost, 0 skipped, confirmed after"))
    }

    @Test
    fun aLostPictureHasTheEncoderStartAgain() = stream(50.milliseconds) { _, streamer, requests ->
        receiver.destroyForcibly().waitFor()
        val pictures = pictures(20)
        streamer.send(flow { pictures.drop(5).forEach { emit(it) } })
        assertEquals("0 delivered, 10 late or lost, 5 skipped", streamer.delivery.toString())
        assertEquals(10, requests.get())
    }

    @Test
    fun latencyIsThatOfTheLatestPictures() {
        val delivery = Delivery()
        repeat(1000) { delivery.ended(Kind.DELIVERED, 900.milliseconds) }
        repeat(300) { delivery.ended(Kind.DELIVERED, (it + 1).milliseconds) }
        delivery.ended(Kind.EXPIRED, 900.milliseconds)
        assertEquals("1300 delivered, 1 late or lost, 0 skipped, confirmed after 151 ms (median), 286 ms (95 %)", "$delivery")
    }
}
