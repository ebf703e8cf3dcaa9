package dev.squall.android;

import android.net.ConnectivityManager;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.os.Build;

import dev.squall.core.Reading.Technology;

import java.util.HashSet;
import java.util.Set;

/** Follows the networks of a radio. Wi-Fi's capabilities also report its strength. */
final class NetworkWatch extends ConnectivityManager.NetworkCallback {
    private final Radio radio;
    private final Transport transport;
    /** The available networks; Wi-Fi has two during a handover. */
    private final Set<Network> networks = new HashSet<>();

    NetworkWatch(Radio radio, Transport transport) {
        this.radio = radio;
        this.transport = transport;
    }

    Transport transport() {
        return transport;
    }

    @Override
    public void onAvailable(Network network) {
        networks.add(network);
        radio.networkLost(false);
    }

    @Override
    public void onLost(Network network) {
        networks.remove(network);
        radio.networkLost(networks.isEmpty());
    }

    @Override
    public void onCapabilitiesChanged(Network network, NetworkCapabilities capabilities) {
        if (transport != Transport.WIFI) {
            return;
        }
        int rssi = WifiLevels.NONE;
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) {
            rssi = WifiLevels.ofTransport31(capabilities);
        }
        if (rssi == WifiLevels.NONE && Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            rssi = WifiLevels.ofCapabilities29(capabilities);
        }
        if (rssi != WifiLevels.NONE) {
            radio.measured(Technology.WIFI, 0, Double.NaN, Double.NaN, Double.NaN, rssi);
        }
    }
}
