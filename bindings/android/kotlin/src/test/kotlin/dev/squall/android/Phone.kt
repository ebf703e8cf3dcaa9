package dev.squall.android

import android.net.ConnectivityManager
import dev.squall.core.Event
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.robolectric.RuntimeEnvironment
import java.io.File
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Longest wait in tests, sufficient even on a busy machine. */
internal val LIMIT = 60.seconds

/** Interval at which tests poll. */
internal val POLL = 10.milliseconds

/** The simulated phone with two networks, which are two loopback addresses, and a server in another process. */
internal class Phone : AutoCloseable {
    private val connectivity = RuntimeEnvironment.getApplication().getSystemService(ConnectivityManager::class.java)
    val peer = Peer()
    val networks: Networks = Networks.request(RuntimeEnvironment.getApplication())
    val wifi = FakeNetwork(connectivity, Transport.WIFI, 200)
    val cellular = FakeNetwork(connectivity, Transport.CELLULAR, 100)

    fun networksCome() {
        wifi.comes("127.0.0.2", false)
        cellular.comes("127.0.0.3", false)
    }

    suspend fun connect(scope: CoroutineScope, configure: Session.Builder.() -> Unit = {}): SquallSession =
        SquallSession.connect(peer.address, networks, scope) {
            fingerprint(peer.fingerprint)
            configure()
        }

    /** As [connect], once both networks have a path. */
    suspend fun connectOverBoth(scope: CoroutineScope, configure: Session.Builder.() -> Unit = {}): SquallSession {
        networksCome()
        return connect(scope, configure).also { session ->
            session.paths(every = POLL).first { it.size == 2 }
        }
    }

    override fun close() {
        networks.close()
        peer.close()
    }
}

/** Runs a test in real time, because the native library has its own clocks. */
internal fun live(limit: Duration = LIMIT * 2, test: suspend CoroutineScope.(Phone) -> Unit) {
    Phone().use { phone ->
        runBlocking(Dispatchers.Default) { withTimeout(limit) { test(phone) } }
    }
}

internal suspend fun SquallSession.event(kind: Event.Kind): Event = events.first { it.kind == kind }

/** Numbers of threads and descriptors of this process. */
internal data class Held(val threads: Int, val descriptors: Int) {
    companion object {
        fun now(): Held = Held(count("/proc/self/task"), count("/proc/self/fd"))

        private fun count(folder: String) = checkNotNull(File(folder).list()).size
    }
}
