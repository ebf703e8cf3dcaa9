package dev.squall.android

import android.content.Context
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.launch
import java.io.File
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** The example of the guide compiles. */
class GuideTest {
    @Suppress("unused")
    private suspend fun example(context: Context, bytes: ByteArray) {
        // As in the guide.
        Networks.request(context).use { networks ->                  // both, while this is open
            Signals.start(context).use { signals ->
                coroutineScope {
                    SquallSession.connect("media.example.org:4433", networks, this, signals) { platformRoots() }.use { session ->
                        launch { session.blocks.collect { println(it) } }
                        val frame = session.send(bytes, BlockOptions(deadline = 150.milliseconds, priority = 0))
                        println(frame.outcome())                     // DELIVERED block 0: 1200 bytes over path 0
                        session.finish(5.seconds)
                    }
                }
            }
        }
        // The end.
    }

    @Test
    fun theGuideHasTheExampleThatCompiles() {
        fun part(file: String, start: String, end: String) = File(file).readText().substringAfter(start).substringBefore(end)
            .lines().map(String::trim).filter(String::isNotEmpty)
        val compiled = part("src/test/kotlin/dev/squall/android/GuideTest.kt", "// As in the guide.\n", "// The end.")
        assertEquals(12, compiled.size)
        assertEquals(compiled, part("../../../docs/android.md", "```kotlin\n", "```"))
    }
}
