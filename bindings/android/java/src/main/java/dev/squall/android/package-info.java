/**
 * Squall for Android: {@link dev.squall.android.Networks} requests Wi-Fi and cellular simultaneously, {@link
 * dev.squall.android.Signals} listens to their radios, {@link dev.squall.android.Session} sends over both.
 */
package dev.squall.android;
