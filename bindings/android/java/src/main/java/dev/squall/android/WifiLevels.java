package dev.squall.android;

import android.net.NetworkCapabilities;
import android.net.TransportInfo;
import android.net.wifi.WifiInfo;

/** Wi-Fi's strength in dBm, from the source that each version of Android offers. */
final class WifiLevels {
    /** Not reported. */
    static final int NONE = Integer.MIN_VALUE;

    /** Android's value for an unknown strength; no radio receives a signal this weak. */
    private static final int INVALID = -127;

    private WifiLevels() {}

    /** Returns the strength reported by Android, or {@link #NONE}. */
    static int of(WifiInfo info) {
        return info == null ? NONE : plausible(info.getRssi());
    }

    @RequiresApi(31)
    static int ofTransport31(NetworkCapabilities capabilities) {
        TransportInfo info = capabilities.getTransportInfo();
        return info instanceof WifiInfo ? of((WifiInfo) info) : NONE;
    }

    @RequiresApi(29)
    static int ofCapabilities29(NetworkCapabilities capabilities) {
        return plausible(capabilities.getSignalStrength());
    }

    private static int plausible(int rssi) {
        return rssi > INVALID && rssi < 0 ? rssi : NONE;
    }
}
