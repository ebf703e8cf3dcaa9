/**
 * Squall for Android: {@link dev.squall.android.Networks} asks for Wi-Fi and cellular at once,
 * {@link dev.squall.android.Signals} listens to their radios, {@link dev.squall.android.Session} sends over
 * both.
 */
package dev.squall.android;
