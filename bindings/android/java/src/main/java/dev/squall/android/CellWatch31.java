package dev.squall.android;

import android.os.Handler;
import android.telephony.ServiceState;
import android.telephony.SignalStrength;
import android.telephony.TelephonyCallback;
import android.telephony.TelephonyManager;

import java.util.concurrent.Executor;

/** Listens to the mobile network from Android 12 on. */
@RequiresApi(31)
final class CellWatch31 implements CellWatch {
    private final TelephonyManager manager;
    private final Strengths strengths;
    private final Service service;

    CellWatch31(TelephonyManager manager, Handler handler, Radio radio) {
        this.manager = manager;
        strengths = new Strengths(radio);
        service = new Service(radio);
        Executor executor = handler::post;
        register(executor, strengths);
        register(executor, service);
    }

    /**
     * Registers each callback separately, because either is useful if a version of Android denies the other.
     */
    private void register(Executor executor, TelephonyCallback callback) {
        try {
            manager.registerTelephonyCallback(executor, callback);
        } catch (SecurityException | UnsupportedOperationException denied) {
            android.util.Log.i("squall", "a callback of the mobile network is denied: " + denied.getMessage());
        }
    }

    @Override
    public void stop() {
        manager.unregisterTelephonyCallback(strengths);
        manager.unregisterTelephonyCallback(service);
    }

    /** Receives levels. */
    @RequiresApi(31)
    static final class Strengths extends TelephonyCallback
            implements TelephonyCallback.SignalStrengthsListener {
        private final Radio radio;

        Strengths(Radio radio) {
            this.radio = radio;
        }

        @Override
        public void onSignalStrengthsChanged(SignalStrength strength) {
            CellLevels29.push(strength, radio);
        }
    }

    /** Receives the service state of the phone. */
    @RequiresApi(31)
    static final class Service extends TelephonyCallback implements TelephonyCallback.ServiceStateListener {
        private final Radio radio;

        Service(Radio radio) {
            this.radio = radio;
        }

        @Override
        public void onServiceStateChanged(ServiceState state) {
            radio.outOfService(state.getState() != ServiceState.STATE_IN_SERVICE);
        }
    }
}
