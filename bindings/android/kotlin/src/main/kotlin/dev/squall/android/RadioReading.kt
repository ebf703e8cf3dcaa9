package dev.squall.android

import dev.squall.core.Reading
import dev.squall.core.Reading.Technology
import kotlin.time.Duration

/**
 * Creates a reading of an application's own source, for [SquallSession.follow]. Omitted levels count as not reported.
 *
 * @param technology of the radio
 * @param disconnected true if the radio has no network
 * @param age age of the measurement
 * @param rsrp reference signal received power in dBm, in LTE and 5G
 * @param rsrq reference signal received quality in dB, in LTE and 5G
 * @param sinr signal to interference and noise ratio in dB
 * @param rssi received signal strength in dBm
 */
public fun radioReading(
    technology: Technology,
    disconnected: Boolean = false,
    age: Duration = Duration.ZERO,
    rsrp: Double = Double.NaN,
    rsrq: Double = Double.NaN,
    sinr: Double = Double.NaN,
    rssi: Double = Double.NaN,
): Reading = Reading(technology, disconnected, age.inWholeMicroseconds, rsrp, rsrq, sinr, rssi)
