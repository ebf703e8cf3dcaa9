package dev.squall.sample

import android.media.MediaCodec
import android.media.MediaCodecInfo.CodecCapabilities.COLOR_FormatSurface
import android.media.MediaFormat
import android.os.Bundle
import android.os.Handler
import android.os.HandlerThread
import android.view.Surface
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.receiveAsFlow

/** The phone's H.264 encoder. Converts pictures drawn on its surface to access units. */
internal class Encoder(video: Video) : AutoCloseable {
    private val codec = MediaCodec.createEncoderByType(MediaFormat.MIMETYPE_VIDEO_AVC)
    private val thread = HandlerThread("encoder").apply { start() }
    private val output = Channel<AccessUnit>(WAITING)

    /** Surface for the source. */
    val surface: Surface

    /** For one collector. Ends with an error of the encoder, or when it is closed. */
    val units: Flow<AccessUnit> = output.receiveAsFlow()

    init {
        val format = MediaFormat.createVideoFormat(MediaFormat.MIMETYPE_VIDEO_AVC, video.width, video.height).apply {
            setInteger(MediaFormat.KEY_COLOR_FORMAT, COLOR_FormatSurface)
            setInteger(MediaFormat.KEY_BIT_RATE, video.bitrate)
            setInteger(MediaFormat.KEY_FRAME_RATE, video.rate)
            setInteger(MediaFormat.KEY_I_FRAME_INTERVAL, KEY_SECONDS)
        }
        codec.setCallback(Output(), Handler(thread.looper))
        codec.configure(format, null, null, MediaCodec.CONFIGURE_FLAG_ENCODE)
        surface = codec.createInputSurface()
        codec.start()
    }

    /** Requests the next picture as a key frame. */
    fun requestKey() {
        codec.setParameters(Bundle().apply { putInt(MediaCodec.PARAMETER_KEY_REQUEST_SYNC_FRAME, 0) })
    }

    override fun close() {
        output.close()
        codec.stop()
        codec.release()
        surface.release()
        thread.quitSafely()
    }

    private inner class Output : MediaCodec.Callback() {
        private var parameterSets = ByteArray(0)

        override fun onOutputBufferAvailable(codec: MediaCodec, index: Int, info: MediaCodec.BufferInfo) {
            val bytes = ByteArray(info.size)
            // Its position is at the first byte of the unit.
            codec.getOutputBuffer(index)?.get(bytes)
            codec.releaseOutputBuffer(index, false)
            val isKey = info.flags and MediaCodec.BUFFER_FLAG_KEY_FRAME != 0
            when {
                info.flags and MediaCodec.BUFFER_FLAG_CODEC_CONFIG != 0 -> parameterSets = bytes
                output.trySend(AccessUnit(if (isKey) parameterSets + bytes else bytes, isKey)).isFailure ->
                    // A picture is missing now, and later ones need it.
                    requestKey()
            }
        }

        override fun onError(codec: MediaCodec, error: MediaCodec.CodecException) {
            output.close(error)
        }

        override fun onInputBufferAvailable(codec: MediaCodec, index: Int) = Unit

        override fun onOutputFormatChanged(codec: MediaCodec, format: MediaFormat) = Unit
    }

    private companion object {
        /** Maximum number of queued access units: half a second. */
        const val WAITING = 15

        /** Seconds from one key frame to the next; others are requested after a loss. */
        const val KEY_SECONDS = 2
    }
}
