/** The native library and its types, independent of Android. */
package dev.squall.core;
