package dev.squall.android;

import android.net.ConnectivityManager;
import android.net.LinkAddress;
import android.net.LinkProperties;
import android.net.Network;
import android.net.NetworkCapabilities;

import org.robolectric.Shadows;
import org.robolectric.shadows.ShadowNetwork;
import org.robolectric.shadows.ShadowNetworkCapabilities;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;

/** A network of the simulated phone; the test calls its callbacks like Android. */
final class FakeNetwork {
    final Network network;
    final Transport transport;
    private final ConnectivityManager manager;

    FakeNetwork(ConnectivityManager manager, Transport transport, int number) {
        this.manager = manager;
        this.transport = transport;
        network = ShadowNetwork.newInstance(number);
    }

    /** Announces the network like Android: available, then its capabilities, then its addresses. */
    void comes(String address, boolean metered) throws Exception {
        for (ConnectivityManager.NetworkCallback callback : callbacks()) {
            callback.onAvailable(network);
        }
        changes(capabilities(metered));
        hasAddress(address);
    }

    void changes(NetworkCapabilities capabilities) {
        for (ConnectivityManager.NetworkCallback callback : callbacks()) {
            callback.onCapabilitiesChanged(network, capabilities);
        }
    }

    void hasAddress(String address) throws Exception {
        LinkProperties link = new LinkProperties();
        link.addLinkAddress(new LinkAddress(InetAddress.getByName(address), 8));
        for (ConnectivityManager.NetworkCallback callback : callbacks()) {
            callback.onLinkPropertiesChanged(network, link);
        }
    }

    void goes() {
        for (ConnectivityManager.NetworkCallback callback : callbacks()) {
            callback.onLost(network);
        }
    }

    NetworkCapabilities capabilities(boolean metered) {
        NetworkCapabilities capabilities = ShadowNetworkCapabilities.newInstance();
        Shadows.shadowOf(capabilities).addTransportType(transport.number);
        Shadows.shadowOf(capabilities).addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET);
        if (!metered) {
            Shadows.shadowOf(capabilities).addCapability(NetworkCapabilities.NET_CAPABILITY_NOT_METERED);
        }
        return capabilities;
    }

    /** Returns the callbacks that requested networks of this kind. */
    private List<ConnectivityManager.NetworkCallback> callbacks() {
        List<ConnectivityManager.NetworkCallback> suitable = new ArrayList<>();
        for (ConnectivityManager.NetworkCallback callback : Shadows.shadowOf(manager).getNetworkCallbacks()) {
            boolean watches = callback instanceof NetworkWatch
                    && ((NetworkWatch) callback).transport() == transport;
            boolean uses = callback instanceof Networks.Watch
                    && ((Networks.Watch) callback).transport == transport;
            if (watches || uses) {
                suitable.add(callback);
            }
        }
        return suitable;
    }
}
