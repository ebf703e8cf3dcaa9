package dev.squall.android;

import android.content.Context;
import android.os.Build;
import android.telephony.PhoneStateListener;
import android.telephony.ServiceState;
import android.telephony.SignalStrength;
import android.telephony.TelephonyManager;

/** Listens to the mobile network up to Android 11. Must be constructed on a thread with a looper. */
final class CellWatch26 extends PhoneStateListener implements CellWatch {
    private final Context context;
    private final TelephonyManager manager;
    private final Radio radio;

    CellWatch26(Context context, TelephonyManager manager, Radio radio) {
        this.context = context;
        this.manager = manager;
        this.radio = radio;
        manager.listen(this, LISTEN_SIGNAL_STRENGTHS | LISTEN_SERVICE_STATE);
    }

    @Override
    public void stop() {
        manager.listen(this, LISTEN_NONE);
    }

    @Override
    public void onSignalStrengthsChanged(SignalStrength strength) {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            CellLevels29.push(strength, radio);
        } else {
            CellLevels26.push(context, manager, strength, radio);
        }
    }

    @Override
    public void onServiceStateChanged(ServiceState state) {
        radio.outOfService(state.getState() != ServiceState.STATE_IN_SERVICE);
    }
}
