package dev.squall.android;

import android.content.Context;
import android.net.ConnectivityManager;
import android.net.NetworkRequest;
import android.net.wifi.WifiManager;
import android.os.Build;
import android.os.Handler;
import android.os.HandlerThread;
import android.telephony.SubscriptionManager;
import android.telephony.TelephonyManager;

import dev.squall.core.Reading;
import dev.squall.core.Reading.Technology;
import dev.squall.core.SquallException;

/**
 * Listens to the phone's radios with callbacks available to every application, and passes their reports to
 * the native library. Works without any dangerous permission; the guide lists the additions of each
 * permission.
 *
 * <pre>{@code
 * Signals signals = Signals.start(context);
 * Session session = new Session.Builder("media.example.org:4433").platformRoots().connect(networks, signals);
 * }</pre>
 */
public final class Signals implements AutoCloseable {
    /** The default interval at which the strength of Wi-Fi is polled, in milliseconds. */
    public static final long DEFAULT_WIFI_PERIOD = 1000;

    private final HandlerThread thread = new HandlerThread("squall-signals");
    private final ConnectivityManager connectivity;
    private final Radio wifi;
    private final Radio cellular;
    private final NetworkWatch wifiWatch;
    private final NetworkWatch cellularWatch;
    private final WifiPoll poll;
    private CellWatch cells;
    private boolean closed;

    /** Starts listening, with {@link #DEFAULT_WIFI_PERIOD}. */
    public static Signals start(Context context) throws SquallException {
        return start(context, DEFAULT_WIFI_PERIOD);
    }

    /**
     * Starts listening. Android reports Wi-Fi's strength only when its class changes, so it is polled as well.
     *
     * @param wifiPeriod the interval of polling, in milliseconds; 0 for no polling
     */
    public static Signals start(Context context, long wifiPeriod) throws SquallException {
        return new Signals(context.getApplicationContext(), wifiPeriod);
    }

    private Signals(Context context, long wifiPeriod) throws SquallException {
        connectivity = context.getSystemService(ConnectivityManager.class);
        WifiManager wifiManager = (WifiManager) context.getSystemService(Context.WIFI_SERVICE);
        wifi = new Radio(Technology.WIFI);
        try {
            cellular = new Radio(Technology.UNKNOWN);
        } catch (SquallException error) {
            wifi.close();
            throw error;
        }
        thread.start();
        Handler handler = new Handler(thread.getLooper());
        wifiWatch = new NetworkWatch(wifi, Transport.WIFI);
        cellularWatch = new NetworkWatch(cellular, Transport.CELLULAR);
        connectivity.registerNetworkCallback(request(Transport.WIFI), wifiWatch, handler);
        connectivity.registerNetworkCallback(request(Transport.CELLULAR), cellularWatch, handler);
        poll = new WifiPoll(wifiManager, handler, wifi, wifiPeriod);
        // PhoneStateListener calls back on the thread that constructed it.
        handler.post(() -> watchCells(context, handler));
    }

    /** Returns the latest reading of a radio; null before the first. */
    public Reading latest(Transport transport) throws SquallException {
        return radio(transport).latest();
    }

    /** Stops listening. Sessions keep the last readings. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        connectivity.unregisterNetworkCallback(wifiWatch);
        connectivity.unregisterNetworkCallback(cellularWatch);
        poll.stop();
        if (cells != null) {
            cells.stop();
        }
        thread.quitSafely();
        wifi.close();
        cellular.close();
    }

    Radio radio(Transport transport) {
        return transport == Transport.WIFI ? wifi : cellular;
    }

    private synchronized void watchCells(Context context, Handler handler) {
        TelephonyManager manager = context.getSystemService(TelephonyManager.class);
        if (closed || manager == null) {
            return;
        }
        // The SIM card that carries data, in phones with several.
        int subscription = SubscriptionManager.getDefaultDataSubscriptionId();
        if (subscription != SubscriptionManager.INVALID_SUBSCRIPTION_ID) {
            manager = manager.createForSubscriptionId(subscription);
        }
        cells = Build.VERSION.SDK_INT >= Build.VERSION_CODES.S
                ? new CellWatch31(manager, handler, cellular)
                : new CellWatch26(context, manager, cellular);
    }

    private static NetworkRequest request(Transport transport) {
        return new NetworkRequest.Builder().addTransportType(transport.number).build();
    }
}
