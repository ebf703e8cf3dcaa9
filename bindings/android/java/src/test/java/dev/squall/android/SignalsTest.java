package dev.squall.android;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.Manifest;
import android.app.Application;
import android.content.Context;
import android.net.ConnectivityManager;
import android.net.NetworkCapabilities;
import android.net.wifi.WifiInfo;
import android.net.wifi.WifiManager;
import android.os.Build;
import android.telephony.CellInfo;
import android.telephony.CellSignalStrength;
import android.telephony.ServiceState;
import android.telephony.SignalStrength;
import android.telephony.TelephonyManager;

import dev.squall.core.Reading;
import dev.squall.core.Reading.Technology;
import dev.squall.core.SquallException;

import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.CellSignalStrengthLteBuilder;
import org.robolectric.shadows.CellSignalStrengthNrBuilder;
import org.robolectric.shadows.ShadowSystemClock;
import org.robolectric.shadows.ShadowWifiInfo;
import org.robolectric.shadows.SignalStrengthBuilder;
import org.robolectric.util.ReflectionHelpers;
import org.robolectric.util.ReflectionHelpers.ClassParameter;

import java.time.Duration;
import java.util.Arrays;

/** The reports of Android's radios arrive in the native library. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {26, 30, 35}, manifest = Config.NONE)
public class SignalsTest {
    private static final int OLDEST = 26;

    private Application context;
    private TelephonyManager telephony;
    private ConnectivityManager connectivity;
    private Signals signals;

    @Before
    public void start() throws Exception {
        context = RuntimeEnvironment.getApplication();
        telephony = context.getSystemService(TelephonyManager.class);
        connectivity = context.getSystemService(ConnectivityManager.class);
        signals = Signals.start(context, 0);
        Eventually.holds("a listener is registered", this::isListening);
    }

    @After
    public void stop() {
        signals.close();
    }

    private boolean isListening() {
        return Build.VERSION.SDK_INT >= 31
                ? shadowOf(telephony).getLastTelephonyCallback() instanceof CellWatch31.Service
                : shadowOf(telephony).getListener() instanceof CellWatch26;
    }

    private Reading cellular() throws SquallException {
        return signals.latest(Transport.CELLULAR);
    }

    private Reading wifi() throws SquallException {
        return signals.latest(Transport.WIFI);
    }

    private void measures(CellSignalStrength... cells) {
        shadowOf(telephony).setSignalStrength(
                SignalStrengthBuilder.newBuilder().setCellSignalStrengths(Arrays.asList(cells)).build());
    }

    private static void assertLevels(Reading reading, double rsrp, double rsrq, double sinr, double rssi) {
        assertEquals("rsrp", rsrp, reading.rsrp, 0.01);
        assertEquals("rsrq", rsrq, reading.rsrq, 0.01);
        assertEquals("sinr", sinr, reading.sinr, 0.01);
        assertEquals("rssi", rssi, reading.rssi, 0.01);
    }

    @Test
    @Config(sdk = {30, 35})
    public void lteLevelsArriveInTheirUnits() throws Exception {
        assertNull(cellular());
        // Android reports tenths of a dB up to version 11, and dB from 12 on.
        int rssnr = Build.VERSION.SDK_INT >= 31 ? 12 : 120;
        measures(CellSignalStrengthLteBuilder.newBuilder()
                .setRsrp(-101).setRsrq(-11).setRssnr(rssnr).setRssi(-71).build());
        Reading reading = cellular();
        assertEquals(Technology.LTE, reading.technology);
        assertFalse(reading.disconnected);
        assertTrue("" + reading.ageMicros, reading.ageMicros < 1_000_000);
        assertLevels(reading, -101, -11, 12, -71);
    }

    @Test
    @Config(sdk = {30, 35})
    public void fiveGIsReportedWithAndWithoutAnAnchor() throws Exception {
        CellSignalStrength nr = CellSignalStrengthNrBuilder.newBuilder()
                .setSsRsrp(-95).setSsRsrq(-12).setSsSinr(18).build();
        measures(nr);
        assertEquals(Technology.NR, cellular().technology);
        assertLevels(cellular(), -95, -12, 18, Double.NaN);
        measures(CellSignalStrengthLteBuilder.newBuilder().setRsrp(-110).build(), nr);
        assertEquals(Technology.NR_NSA, cellular().technology);
        assertLevels(cellular(), -95, -12, 18, Double.NaN);
    }

    @Test
    @Config(sdk = {30, 35})
    public void unavailableLevelsAreNotReported() throws Exception {
        measures(CellSignalStrengthLteBuilder.newBuilder()
                .setRsrp(-101).setRsrq(CellInfo.UNAVAILABLE).setRssnr(CellInfo.UNAVAILABLE)
                .setRssi(CellInfo.UNAVAILABLE).build());
        assertLevels(cellular(), -101, Double.NaN, Double.NaN, Double.NaN);
        // All levels of 5G are unavailable: those of LTE are used.
        measures(CellSignalStrengthNrBuilder.newBuilder()
                        .setSsRsrp(CellInfo.UNAVAILABLE).setSsSinr(CellInfo.UNAVAILABLE).build(),
                CellSignalStrengthLteBuilder.newBuilder().setRsrp(-104).build());
        assertEquals(Technology.LTE, cellular().technology);
        assertEquals(-104, cellular().rsrp, 0.01);
        // All levels are unavailable: the last ones are kept.
        measures(CellSignalStrengthLteBuilder.newBuilder()
                .setRsrp(CellInfo.UNAVAILABLE).setRssi(CellInfo.UNAVAILABLE).build());
        assertEquals(-104, cellular().rsrp, 0.01);
    }

    @Test
    @Config(sdk = OLDEST)
    public void android8ReportsGsmOrBars() throws Exception {
        shadowOf(telephony).setSignalStrength(strength8(21, -1));
        assertEquals(Technology.GSM, cellular().technology);
        assertLevels(cellular(), Double.NaN, Double.NaN, Double.NaN, -71);
        // LTE: GSM's level is 99, unknown; Android derives the bars from the hidden level.
        SignalStrength lte = strength8(99, -100);
        assertTrue("bars", lte.getLevel() > 0);
        shadowOf(telephony).setSignalStrength(lte);
        assertEquals(Technology.UNKNOWN, cellular().technology);
        assertEquals(-93 - 10 * (4 - lte.getLevel()), cellular().rsrp, 0.01);
    }

    /** Builds the object like Android 8 from the modem's answer; later versions have other constructors. */
    private static SignalStrength strength8(int gsm, int rsrp) {
        SignalStrength strength = new SignalStrength();
        ReflectionHelpers.setField(strength, "mGsmSignalStrength", gsm);
        ReflectionHelpers.setField(strength, "mLteRsrp", rsrp == -1 ? Integer.MAX_VALUE : rsrp);
        ReflectionHelpers.setField(strength, "isGsm", true);
        return strength;
    }

    @Test
    public void aNetworkThatIsOutOfServiceOrLostIsDisconnected() throws Exception {
        ServiceState state = new ServiceState();
        state.setState(ServiceState.STATE_OUT_OF_SERVICE);
        shadowOf(telephony).setServiceState(state);
        assertTrue(cellular().disconnected);
        state.setState(ServiceState.STATE_IN_SERVICE);
        shadowOf(telephony).setServiceState(state);
        assertFalse(cellular().disconnected);

        FakeNetwork cell = new FakeNetwork(connectivity, Transport.CELLULAR, 100);
        cell.comes("10.0.0.7", true);
        assertFalse(cellular().disconnected);
        cell.goes();
        assertTrue(cellular().disconnected);
        new FakeNetwork(connectivity, Transport.CELLULAR, 101).comes("10.0.0.8", true);
        assertFalse(cellular().disconnected);
    }

    @Test
    public void wifiIsLostWithItsLastNetwork() throws Exception {
        FakeNetwork first = new FakeNetwork(connectivity, Transport.WIFI, 200);
        FakeNetwork second = new FakeNetwork(connectivity, Transport.WIFI, 201);
        first.comes("192.168.1.7", false);
        second.comes("192.168.2.7", false);
        first.goes();
        assertTrue("one is left", wifi() == null || !wifi().disconnected);
        second.goes();
        assertTrue(wifi().disconnected);
        assertNull("cellular has nothing to do with it", cellular());
    }

    @Test
    @Config(sdk = {30, 35})
    public void wifiStrengthIsPushedWithCapabilities() throws Exception {
        FakeNetwork network = new FakeNetwork(connectivity, Transport.WIFI, 200);
        network.comes("192.168.1.7", false);
        NetworkCapabilities capabilities = network.capabilities(false);
        if (Build.VERSION.SDK_INT >= 31) {
            shadowOf(capabilities).setTransportInfo(wifiInfo(-63));
        } else {
            capabilities.setSignalStrength(-63);
        }
        network.changes(capabilities);
        assertEquals(Technology.WIFI, wifi().technology);
        assertLevels(wifi(), Double.NaN, Double.NaN, Double.NaN, -63);
        // Capabilities without a strength keep the last one.
        network.changes(network.capabilities(true));
        assertEquals(-63, wifi().rssi, 0.01);
    }

    @Test
    public void wifiStrengthIsPolledBetweenCallbacks() throws Exception {
        WifiManager manager = (WifiManager) context.getSystemService(Context.WIFI_SERVICE);
        shadowOf(manager).setConnectionInfo(wifiInfo(-58));
        try (Signals polling = Signals.start(context, 20)) {
            Eventually.holds("-58", () -> strength(polling) == -58);
            shadowOf(manager).setConnectionInfo(wifiInfo(-77));
            Eventually.holds("-77", () -> {
                // Robolectric's clock advances only on request.
                ShadowSystemClock.advanceBy(Duration.ofMillis(20));
                return strength(polling) == -77;
            });
            // Android's value for an unknown strength.
            assertEquals(WifiLevels.NONE, WifiLevels.of(wifiInfo(-127)));
            assertEquals(WifiLevels.NONE, WifiLevels.of(null));
        }
    }

    private static WifiInfo wifiInfo(int rssi) {
        WifiInfo info = ShadowWifiInfo.newInstance();
        shadowOf(info).setRssi(rssi);
        return info;
    }

    private static double strength(Signals signals) throws SquallException {
        Reading reading = signals.latest(Transport.WIFI);
        return reading == null ? Double.NaN : reading.rssi;
    }

    @Test
    public void afterTheEndNothingIsListenedToAndNothingBreaks() throws Exception {
        Radio radio = signals.radio(Transport.CELLULAR);
        signals.close();
        signals.close();
        assertTrue(shadowOf(connectivity).getNetworkCallbacks().isEmpty());
        radio.measured(Technology.LTE, 0, -100, -10, 5, Double.NaN);
        try {
            signals.latest(Transport.CELLULAR);
            throw new AssertionError("is closed");
        } catch (SquallException expected) {
            assertEquals("the radio is closed", expected.getMessage());
        }
    }
}
