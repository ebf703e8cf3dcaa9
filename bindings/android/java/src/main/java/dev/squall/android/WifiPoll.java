package dev.squall.android;

import android.net.wifi.WifiManager;
import android.os.Handler;

import dev.squall.core.Reading.Technology;

/** Polls the strength of Wi-Fi at a constant interval. */
final class WifiPoll implements Runnable {
    private final WifiManager manager;
    private final Handler handler;
    private final Radio radio;
    private final long period;

    /** Does nothing without a manager, or with a period of 0. */
    WifiPoll(WifiManager manager, Handler handler, Radio radio, long period) {
        this.manager = manager;
        this.handler = handler;
        this.radio = radio;
        this.period = period;
        if (manager != null && period > 0) {
            handler.post(this);
        }
    }

    void stop() {
        handler.removeCallbacks(this);
    }

    @Override
    public void run() {
        int rssi;
        try {
            rssi = WifiLevels.of(manager.getConnectionInfo());
        } catch (SecurityException withoutPermission) {
            // ACCESS_WIFI_STATE was removed from the manifest: only callbacks report the strength.
            return;
        }
        if (rssi != WifiLevels.NONE) {
            radio.measured(Technology.WIFI, 0, Double.NaN, Double.NaN, Double.NaN, rssi);
        }
        handler.postDelayed(this, period);
    }
}
