package dev.squall.sample

/**
 * One encoded picture as a decoder takes it, with start codes.
 *
 * @property isKey whether decoding can start here; such a unit has the parameter sets before the picture
 */
internal class AccessUnit(val bytes: ByteArray, val isKey: Boolean)
