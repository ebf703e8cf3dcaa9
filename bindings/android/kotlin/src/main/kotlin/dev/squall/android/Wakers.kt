package dev.squall.android

import dev.squall.core.Native

/**
 * One thread that waits in the native library for events of all sessions, as long as there are any. A session therefore
 * needs no thread of its own, and no waiting thread must be interrupted when a coroutine is cancelled.
 */
internal object Wakers {
    /**
     * Events and released sessions end the wait earlier. This bounds the time for which the thread outlives the last
     * session.
     */
    private const val WAIT_MICROS = 1_000_000L

    private val wakers = HashMap<Long, () -> Unit>()
    private var isRunning = false

    /** Calls [wake] soon, and again whenever a session has new events. It must not wait. */
    fun watch(session: Long, wake: () -> Unit) {
        synchronized(this) {
            wakers[session] = wake
            if (!isRunning) {
                isRunning = true
                Thread(::serve, "squall-ready").apply { isDaemon = true }.start()
            }
        }
        Native.watch(session)
    }

    /** Stops the calls for a session. */
    fun forget(session: Long) {
        synchronized(this) { wakers.remove(session) }
    }

    private fun serve() {
        while (true) {
            val session = Native.ready(WAIT_MICROS)
            val wake = synchronized(this) {
                if (wakers.isEmpty()) {
                    isRunning = false
                    return
                }
                wakers[session]
            }
            wake?.invoke()
        }
    }
}
