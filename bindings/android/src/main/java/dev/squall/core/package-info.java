/** The native library and what it hands over. Knows nothing of Android. */
package dev.squall.core;
