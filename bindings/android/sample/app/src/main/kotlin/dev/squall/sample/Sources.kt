package dev.squall.sample

import android.annotation.SuppressLint
import android.content.Context
import android.graphics.Color
import android.graphics.Paint
import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.os.Handler
import android.os.HandlerThread
import android.view.Surface
import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.delay
import kotlinx.coroutines.suspendCancellableCoroutine
import java.io.IOException
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** Draws pictures on a surface until it is cancelled. */
internal fun interface Source {
    suspend fun draw(surface: Surface): Nothing
}

/** The camera at the back, or the first one. Needs the permission `CAMERA`. */
internal class Camera(context: Context) : Source {
    private val manager = checkNotNull(context.getSystemService(CameraManager::class.java)) { "there is no camera" }

    override suspend fun draw(surface: Surface): Nothing {
        val thread = HandlerThread("camera").apply { start() }
        try {
            val handler = Handler(thread.looper)
            open(handler).use { device ->
                start(device, surface, handler)
                awaitCancellation()
            }
        } finally {
            thread.quitSafely()
        }
    }

    // The activity has requested the permission.
    @SuppressLint("MissingPermission")
    private suspend fun open(handler: Handler): CameraDevice = suspendCancellableCoroutine { waits ->
        val back = manager.cameraIdList.firstOrNull { id ->
            manager.getCameraCharacteristics(id)[CameraCharacteristics.LENS_FACING] == CameraCharacteristics.LENS_FACING_BACK
        }
        val id = back ?: manager.cameraIdList.firstOrNull() ?: throw IOException("there is no camera")
        manager.openCamera(id, Opening(waits), handler)
    }

    // The replacement of this call was added in Android 9.
    @Suppress("DEPRECATION")
    private suspend fun start(device: CameraDevice, surface: Surface, handler: Handler) {
        val session = suspendCancellableCoroutine { waits ->
            device.createCaptureSession(listOf(surface), Configuring(waits), handler)
        }
        val request = device.createCaptureRequest(CameraDevice.TEMPLATE_RECORD).apply { addTarget(surface) }
        session.setRepeatingRequest(request.build(), null, handler)
    }

    private class Opening(private val waits: CancellableContinuation<CameraDevice>) : CameraDevice.StateCallback() {
        override fun onOpened(device: CameraDevice) = waits.resume(device) { _, late, _ -> late.close() }

        override fun onDisconnected(device: CameraDevice) = fail(device, "another application took the camera")

        override fun onError(device: CameraDevice, error: Int) = fail(device, "the camera failed with error $error")

        private fun fail(device: CameraDevice, line: String) {
            device.close()
            // After it has been opened, the encoder gets no more pictures, and the application shows that none are
            // sent.
            if (waits.isActive) {
                waits.resumeWithException(IOException(line))
            }
        }
    }

    private class Configuring(
        private val waits: CancellableContinuation<CameraCaptureSession>,
    ) : CameraCaptureSession.StateCallback() {
        override fun onConfigured(session: CameraCaptureSession) = waits.resume(session)

        override fun onConfigureFailed(session: CameraCaptureSession) =
            waits.resumeWithException(IOException("the camera offers no pictures of this size"))
    }
}

/** A moving bar and the time: for phones without a camera, and for measurements with another camera. */
internal class Pattern(private val video: Video) : Source {
    private val bar = Paint().apply { color = Color.WHITE }
    private val text = Paint().apply {
        color = Color.WHITE
        textSize = video.height / 8f
    }

    override suspend fun draw(surface: Surface): Nothing {
        val start = TimeSource.Monotonic.markNow()
        var picture = 0
        while (true) {
            drawPicture(surface, picture)
            picture++
            delay(1.seconds * picture / video.rate - start.elapsedNow())
        }
    }

    private fun drawPicture(surface: Surface, picture: Int) {
        val canvas = surface.lockHardwareCanvas()
        try {
            canvas.drawColor(Color.rgb(0, 64, 96))
            val left = (picture * video.width / (2f * video.rate)) % video.width
            canvas.drawRect(left, 0f, left + video.width / 16f, video.height.toFloat(), bar)
            canvas.drawText("${picture * 1000L / video.rate} ms", 0f, video.height / 2f, text)
        } finally {
            surface.unlockCanvasAndPost(canvas)
        }
    }
}
