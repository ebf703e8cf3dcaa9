package dev.squall.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Application;
import android.net.ConnectivityManager;
import android.net.NetworkCapabilities;
import android.net.wifi.WifiInfo;

import dev.squall.core.PathInfo;

import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowWifiInfo;

import java.nio.ByteBuffer;

/** From Android's callback to the scheduler: a network whose radio fails carries no more data. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35, manifest = Config.NONE, shadows = {ShadowDescriptor.class, ShadowBinding.class})
public class SignalOutageTest {
    private static final int BLOCK = 20_000;

    @Test
    public void dataLeavesANetworkWhoseRadioFailsAndComesBackWithIt() throws Exception {
        Application context = RuntimeEnvironment.getApplication();
        ConnectivityManager connectivity = context.getSystemService(ConnectivityManager.class);
        try (Peer peer = new Peer();
                Networks networks = Networks.request(context);
                Signals signals = Signals.start(context, 0)) {
            FakeNetwork wifi = new FakeNetwork(connectivity, Transport.WIFI, 200);
            FakeNetwork cellular = new FakeNetwork(connectivity, Transport.CELLULAR, 100);
            wifi.comes("127.0.0.2", false);
            cellular.comes("127.0.0.3", false);
            strength(wifi, -50);
            try (Session session = new Session.Builder(peer.address).fingerprint(peer.fingerprint)
                    .scheduler("rr").connect(networks, signals)) {
                Eventually.holds("two paths", () -> session.paths().length == 2);
                Eventually.holds("Wi-Fi is read", () -> path(session, Transport.WIFI).signalQuality > 0.9);
                long[] good = sent(session, peer);
                assertTrue("both carry data: " + good[0] + ", " + good[1], good[0] > 0 && good[1] > 0);

                strength(wifi, -88);
                Eventually.holds("Wi-Fi is disabled",
                        () -> path(session, Transport.WIFI).state.equals("deactivated"));
                long[] bad = sent(session, peer);
                assertEquals("bytes over Wi-Fi", 0, bad[0]);
                assertTrue("bytes over cellular: " + bad[1], bad[1] >= 10 * BLOCK);

                strength(wifi, -50);
                Eventually.holds("Wi-Fi is used again", () -> path(session, Transport.WIFI).state.equals("active"));
                Eventually.holds("it carries data", () -> sent(session, peer)[0] > 0);
            }
        }
    }

    @Test
    public void aRadioMayComeBeforeItsNetwork() throws Exception {
        Application context = RuntimeEnvironment.getApplication();
        ConnectivityManager connectivity = context.getSystemService(ConnectivityManager.class);
        try (Peer peer = new Peer();
                Networks networks = Networks.request(context);
                Signals signals = Signals.start(context, 0)) {
            FakeNetwork wifi = new FakeNetwork(connectivity, Transport.WIFI, 200);
            FakeNetwork cellular = new FakeNetwork(connectivity, Transport.CELLULAR, 100);
            cellular.comes("127.0.0.3", false);
            try (Session session = new Session.Builder(peer.address).fingerprint(peer.fingerprint)
                    .connect(networks, signals)) {
                wifi.comes("127.0.0.2", false);
                strength(wifi, -50);
                Eventually.holds("two paths", () -> session.paths().length == 2);
                Eventually.holds("Wi-Fi is read", () -> path(session, Transport.WIFI).signalQuality > 0.9);
            }
        }
    }

    private static void strength(FakeNetwork wifi, int rssi) {
        WifiInfo info = ShadowWifiInfo.newInstance();
        shadowOf(info).setRssi(rssi);
        NetworkCapabilities capabilities = wifi.capabilities(false);
        shadowOf(capabilities).setTransportInfo(info);
        wifi.changes(capabilities);
    }

    /** Sends ten blocks and waits until the peer has them; returns the bytes sent over Wi-Fi and cellular. */
    private static long[] sent(Session session, Peer peer) throws Exception {
        long wifi = path(session, Transport.WIFI).dataSent;
        long cellular = path(session, Transport.CELLULAR).dataSent;
        for (int i = 0; i < 10; i++) {
            session.send(ByteBuffer.allocateDirect(BLOCK), Session.NO_DEADLINE, 0, true, 0);
            peer.next("block");
        }
        return new long[] {
            path(session, Transport.WIFI).dataSent - wifi,
            path(session, Transport.CELLULAR).dataSent - cellular
        };
    }

    private static PathInfo path(Session session, Transport transport) throws Exception {
        for (PathInfo path : session.paths()) {
            if (path.network.equals(transport.label)) {
                return path;
            }
        }
        throw new AssertionError("no path over " + transport);
    }
}
