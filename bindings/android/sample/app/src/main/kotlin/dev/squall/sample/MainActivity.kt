package dev.squall.sample

import android.Manifest
import android.app.Activity
import android.content.pm.PackageManager
import android.os.Bundle
import android.view.WindowManager
import android.widget.Button
import android.widget.CheckBox
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import dev.squall.android.Networks
import dev.squall.android.Signals
import dev.squall.android.SquallSession
import dev.squall.android.Transport
import dev.squall.core.PathInfo
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.MainScope
import kotlinx.coroutines.cancel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.launch
import kotlin.time.Duration.Companion.milliseconds

/** Sends the camera, or a pattern, over Wi-Fi and the mobile network, and shows the paths. */
internal class MainActivity : Activity() {
    private val scope = MainScope()
    private val video = Video()
    private var streaming: Job? = null

    private lateinit var server: EditText
    private lateinit var fingerprint: EditText
    private lateinit var transports: Map<Transport, CheckBox>
    private lateinit var camera: CheckBox
    private lateinit var button: Button
    private lateinit var report: TextView

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        window.addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
        server = EditText(this).apply { hint = "host:port" }
        fingerprint = EditText(this).apply { hint = "fingerprint of its certificate" }
        transports = Transport.entries.associateWith { kind ->
            CheckBox(this).apply {
                text = kind.label
                isChecked = true
            }
        }
        camera = CheckBox(this).apply { text = "camera instead of a pattern" }
        button = Button(this).apply {
            text = START
            setOnClickListener { if (streaming?.isActive == true) streaming?.cancel() else start() }
        }
        report = TextView(this)
        val column = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        (listOf(server, fingerprint) + transports.values + listOf(camera, button, report)).forEach(column::addView)
        setContentView(column)
    }

    override fun onStop() {
        // Only a visible activity may use the camera.
        streaming?.cancel()
        super.onStop()
    }

    override fun onDestroy() {
        scope.cancel()
        super.onDestroy()
    }

    private fun start() {
        if (camera.isChecked && checkSelfPermission(Manifest.permission.CAMERA) != PackageManager.PERMISSION_GRANTED) {
            requestPermissions(arrayOf(Manifest.permission.CAMERA), 0)
            report.text = "Allow the camera, then start again"
            return
        }
        button.text = "Stop"
        report.text = "Connecting"
        // Started at once, so that a cancellation always reaches its end.
        streaming = scope.launch(start = CoroutineStart.UNDISPATCHED) {
            try {
                stream()
            } catch (cancelled: CancellationException) {
                report.text = "Stopped"
                throw cancelled
            } catch (error: Exception) {
                report.text = error.message
            } finally {
                button.text = START
            }
        }
    }

    /** Streams until it is cancelled or fails. Leaving the blocks of `use` closes their objects in reverse order. */
    private suspend fun stream() = coroutineScope {
        val kinds = transports.filterValues { it.isChecked }.keys.toTypedArray()
        require(kinds.isNotEmpty()) { "Choose a network" }
        val source = if (camera.isChecked) Camera(this@MainActivity) else Pattern(video)
        val pin = fingerprint.text.trim().toString()
        Networks.request(this@MainActivity, *kinds).use { networks ->
            Signals.start(this@MainActivity).use { signals ->
                val host = server.text.trim().toString()
                SquallSession.connect(host, networks, this, signals) { fingerprint(pin) }.use { session ->
                    Encoder(video).use { encoder -> stream(session, encoder, source) }
                }
            }
        }
    }

    private suspend fun stream(session: SquallSession, encoder: Encoder, source: Source): Unit = coroutineScope {
        val streamer = Streamer(session, requestKey = encoder::requestKey)
        val drawing = launch(Dispatchers.Default) { source.draw(encoder.surface) }
        val showing = launch { session.paths(every = 500.milliseconds).collect { show(it, streamer.delivery) } }
        launch(Dispatchers.Default) { streamer.send(encoder.units) }.join()
        drawing.cancel()
        showing.cancel()
    }

    private fun show(paths: List<PathInfo>, delivery: Delivery) {
        report.text = paths.joinToString("\n", postfix = "\n$delivery") { path ->
            "${path.network}: ${path.state}, ${path.roundTripMicros / 1000} ms, ${path.rate / 1000} kbit/s, " +
                "${path.dataSent / 1000} kB sent" + if (path.metered) ", metered" else ""
        }
    }

    private companion object {
        const val START = "Start"
    }
}
