package dev.squall.sample

/**
 * Size and rate of the video.
 *
 * @property rate pictures in a second
 * @property bitrate bits in a second
 */
internal data class Video(
    val width: Int = 1280,
    val height: Int = 720,
    val rate: Int = 30,
    val bitrate: Int = 4_000_000,
)
