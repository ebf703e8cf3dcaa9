package dev.squall.android;

import android.net.NetworkCapabilities;
import android.net.TransportInfo;
import android.net.wifi.WifiInfo;

/** Wi-Fi's strength in dBm, from where each version of Android tells it. */
final class WifiLevels {
    /** Not told. */
    static final int NONE = Integer.MIN_VALUE;

    /** What Android says when it knows no strength, or knows one that no radio could hear. */
    private static final int INVALID = -127;

    private WifiLevels() {}

    /** As Android tells it, or {@link #NONE}. */
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
