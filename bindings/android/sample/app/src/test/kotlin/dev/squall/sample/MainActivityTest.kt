package dev.squall.sample

import android.os.Looper
import android.view.ViewGroup
import android.widget.Button
import android.widget.CheckBox
import android.widget.TextView
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** The part of the activity that does not need a phone. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], manifest = Config.NONE)
class MainActivityTest {
    private val controller = Robolectric.buildActivity(MainActivity::class.java).setup()
    private val views = controller.get().requireViewById<ViewGroup>(android.R.id.content).getChildAt(0) as ViewGroup
    private val all = List(views.childCount, views::getChildAt)
    private val boxes = all.filterIsInstance<CheckBox>()
    private val button = all.filterIsInstance<Button>().single { it !is CheckBox }
    private val report = all.last() as TextView

    /** Runs the main thread until the report contains the line. */
    private fun await(line: String) {
        val began = TimeSource.Monotonic.markNow()
        while (report.text.toString() != line) {
            assertTrue(began.elapsedNow() < 30.seconds, "'$line', but the report is '${report.text}'")
            shadowOf(Looper.getMainLooper()).idle()
            Thread.sleep(10)
        }
    }

    @Test
    fun mistakesAreShown() {
        assertEquals(listOf("wifi", "cellular", "camera instead of a pattern"), boxes.map { it.text.toString() })
        boxes.forEach { it.isChecked = false }
        button.performClick()
        await("Choose a network")
        assertEquals("Start", button.text)
        boxes.forEach { it.isChecked = true }
        button.performClick()
        await("Allow the camera, then start again")
    }

    @Test
    fun leavingTheActivityEndsTheAttemptToConnect() {
        button.performClick()
        await("Connecting")
        assertEquals("Stop", button.text)
        button.performClick()
        await("Stopped")
        button.performClick()
        await("Connecting")
        controller.pause().stop()
        await("Stopped")
        assertEquals("Start", button.text)
        controller.destroy()
    }
}
