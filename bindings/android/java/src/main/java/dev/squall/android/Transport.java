package dev.squall.android;

import android.net.NetworkCapabilities;

/** Kinds of networks. */
public enum Transport {
    /** Wi-Fi. */
    WIFI("wifi", NetworkCapabilities.TRANSPORT_WIFI),
    /** Mobile networks. */
    CELLULAR("cellular", NetworkCapabilities.TRANSPORT_CELLULAR);

    /** The name of paths over such networks. */
    public final String label;
    /** The number of {@link NetworkCapabilities}. */
    final int number;

    Transport(String label, int number) {
        this.label = label;
        this.number = number;
    }
}
