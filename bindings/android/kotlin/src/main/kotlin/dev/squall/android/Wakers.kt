package dev.squall.android

import dev.squall.core.Native

/**
 * One thread that waits in the native library for events of all sessions, as long as there are any. So a session needs no
 * thread of its own, and none that waits has to be interrupted when a coroutine is cancelled.
 */
internal object Wakers {
    /** Events and released sessions end the wait earlier. This bounds how long the thread outlives the last session. */
    private const val WAIT_MICROS = 1_000_000L

    private val wakers = HashMap<Long, () -> Unit>()
    private var isRunning = false

    /** Calls [wake] soon, and again whenever a session has something new. It must not wait. */
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

    /** Stops calling for a session. */
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
