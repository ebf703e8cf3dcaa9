package dev.squall.sample

/**
 * One encoded picture in the form for a decoder, with start codes.
 *
 * @property isKey true if decoding can start here; such a unit has the parameter sets before the picture
 */
internal class AccessUnit(val bytes: ByteArray, val isKey: Boolean)
