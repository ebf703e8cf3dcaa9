package dev.squall.android;

import android.content.Context;
import android.net.ConnectivityManager;
import android.net.LinkAddress;
import android.net.LinkProperties;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.net.NetworkRequest;
import android.os.Handler;
import android.os.HandlerThread;

import dev.squall.core.Native;
import dev.squall.core.SquallException;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Keeps Wi-Fi and the mobile network up at the same time, and binds each session's sockets to them. While Wi-Fi
 * is available, Android lets the mobile network sleep unless an application requests it: keep this object open
 * while a session lasts, and no longer.
 */
public final class Networks implements AutoCloseable {
    private final ConnectivityManager connectivity;
    private final HandlerThread thread = new HandlerThread("squall-networks");
    private final List<Watch> watches = new ArrayList<>();
    /** The networks that Android has announced, oldest first. */
    private final Map<Network, Known> known = new LinkedHashMap<>();
    /** Numbers of the sessions that use them. */
    private final List<Long> sessions = new ArrayList<>();
    private boolean closed;

    /** Requests Wi-Fi and the mobile network. */
    public static Networks request(Context context) {
        return request(context, Transport.values());
    }

    /** Requests networks of these kinds. Needs the permission {@code CHANGE_NETWORK_STATE}. */
    public static Networks request(Context context, Transport... transports) {
        return new Networks(context.getApplicationContext(), transports);
    }

    private Networks(Context context, Transport[] transports) {
        connectivity = context.getSystemService(ConnectivityManager.class);
        thread.start();
        Handler handler = new Handler(thread.getLooper());
        for (Transport transport : transports) {
            NetworkRequest request = new NetworkRequest.Builder()
                    .addTransportType(transport.number)
                    .addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET)
                    .build();
            Watch watch = new Watch(transport);
            watches.add(watch);
            connectivity.requestNetwork(request, watch, handler);
        }
    }

    /** Returns the names of the networks that can be used now. */
    public synchronized List<String> available() {
        List<String> names = new ArrayList<>();
        for (Known one : known.values()) {
            if (one.number != 0) {
                names.add(one.transport.label);
            }
        }
        return names;
    }

    /** Waits until a network can be used; returns false after the timeout. */
    public synchronized boolean await(long timeoutMillis) throws InterruptedException {
        long end = System.nanoTime() + timeoutMillis * 1_000_000;
        while (available().isEmpty() && !closed) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                return false;
            }
            wait(left);
        }
        return !closed;
    }

    /** Ends the requests. Sessions continue as long as Android keeps the networks. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        for (Watch watch : watches) {
            connectivity.unregisterNetworkCallback(watch);
        }
        thread.quitSafely();
        sessions.clear();
        for (Known one : known.values()) {
            Native.networkClose(one.number);
        }
        known.clear();
        notifyAll();
    }

    /** Returns the numbers of the networks that can be used now. */
    synchronized long[] numbers() {
        return known.values().stream().mapToLong(one -> one.number).filter(number -> number != 0).toArray();
    }

    /** Passes the networks to a session, now and after every change. */
    synchronized void attach(long session) throws SquallException {
        sessions.add(session);
        Native.setNetworks(session, numbers());
    }

    /** Stops notifying a session of changes. */
    synchronized void detach(long session) {
        sessions.remove(session);
    }

    private synchronized void available(Network network, Transport transport) {
        if (!closed && !known.containsKey(network)) {
            known.put(network, new Known(network, transport));
        }
    }

    private synchronized void changed(Network network, LinkProperties link, NetworkCapabilities capabilities) {
        Known one = known.get(network);
        if (one == null) {
            return;
        }
        boolean changed = false;
        try {
            if (link != null) {
                changed = one.setAddresses(addresses(link));
            }
            if (capabilities != null) {
                changed |= one.setMetered(isMetered(capabilities));
            }
        } catch (SquallException error) {
            android.util.Log.w("squall", "network " + network + " is not used: " + error.getMessage());
        }
        if (changed) {
            notifySessions();
        }
    }

    private synchronized void lost(Network network) {
        Known one = known.remove(network);
        if (one != null && one.number != 0) {
            notifySessions();
            Native.networkClose(one.number);
        }
    }

    private void notifySessions() {
        long[] numbers = numbers();
        for (long session : sessions) {
            try {
                Native.setNetworks(session, numbers);
            } catch (SquallException over) {
                android.util.Log.d("squall", "a session ended: " + over.getMessage());
            }
        }
        notifyAll();
    }

    private static String addresses(LinkProperties link) {
        StringBuilder text = new StringBuilder();
        for (LinkAddress address : link.getLinkAddresses()) {
            text.append(address.getAddress().getHostAddress()).append(' ');
        }
        return text.toString();
    }

    private static boolean isMetered(NetworkCapabilities capabilities) {
        return !capabilities.hasCapability(NetworkCapabilities.NET_CAPABILITY_NOT_METERED)
                && !capabilities.hasCapability(NetworkCapabilities.NET_CAPABILITY_TEMPORARILY_NOT_METERED);
    }

    /** A network that Android has announced. It is used once Android has reported its addresses. */
    private static final class Known {
        final Network network;
        final Transport transport;
        long number;
        private String addresses = "";
        private boolean metered;

        Known(Network network, Transport transport) {
            this.network = network;
            this.transport = transport;
        }

        boolean setAddresses(String addresses) throws SquallException {
            if (number != 0 && addresses.equals(this.addresses)) {
                return false;
            }
            this.addresses = addresses;
            if (number == 0) {
                number = Native.networkOpen(transport.label, new NetworkBinder(network));
            }
            Native.networkUpdate(number, addresses, metered);
            return true;
        }

        boolean setMetered(boolean metered) throws SquallException {
            boolean changed = metered != this.metered;
            this.metered = metered;
            if (changed && number != 0) {
                Native.networkUpdate(number, addresses, metered);
                return true;
            }
            return false;
        }
    }

    /** Follows the networks of one kind. */
    final class Watch extends ConnectivityManager.NetworkCallback {
        final Transport transport;

        Watch(Transport transport) {
            this.transport = transport;
        }

        @Override
        public void onAvailable(Network network) {
            available(network, transport);
        }

        @Override
        public void onCapabilitiesChanged(Network network, NetworkCapabilities capabilities) {
            changed(network, null, capabilities);
        }

        @Override
        public void onLinkPropertiesChanged(Network network, LinkProperties link) {
            changed(network, link, null);
        }

        @Override
        public void onLost(Network network) {
            lost(network);
        }
    }
}
