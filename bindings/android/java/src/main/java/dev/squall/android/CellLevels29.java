package dev.squall.android;

import android.os.Build;
import android.os.SystemClock;
import android.telephony.CellInfo;
import android.telephony.CellSignalStrength;
import android.telephony.CellSignalStrengthLte;
import android.telephony.CellSignalStrengthNr;
import android.telephony.CellSignalStrengthGsm;
import android.telephony.CellSignalStrengthTdscdma;
import android.telephony.CellSignalStrengthWcdma;
import android.telephony.SignalStrength;

import dev.squall.core.Reading.Technology;

/** Levels of the mobile network from Android 10 on. */
@RequiresApi(29)
final class CellLevels29 {
    /**
     * Maximum age of a measurement; one that appears older is attributed to diverging clocks, and counts as
     * new.
     */
    private static final long MAX_AGE_MILLIS = 60_000;

    private CellLevels29() {}

    /** Pushes the levels of the best technology that reports any; nothing if none does. */
    static void push(SignalStrength strength, Radio radio) {
        CellSignalStrengthNr nr = null;
        CellSignalStrengthLte lte = null;
        CellSignalStrength older = null;
        for (CellSignalStrength one : strength.getCellSignalStrengths()) {
            if (one instanceof CellSignalStrengthNr) {
                nr = (CellSignalStrengthNr) one;
            } else if (one instanceof CellSignalStrengthLte) {
                lte = (CellSignalStrengthLte) one;
            } else if (older == null) {
                older = one;
            }
        }
        long age = ageMicros(strength);
        boolean anchored = lte != null && isAvailable(lte.getRsrp());
        if (nr != null && isAvailable(nr.getSsRsrp())) {
            radio.measured(anchored ? Technology.NR_NSA : Technology.NR, age, level(nr.getSsRsrp()),
                    level(nr.getSsRsrq()), level(nr.getSsSinr()), Double.NaN);
        } else if (lte != null && (anchored || isAvailable(lte.getRssi()))) {
            radio.measured(Technology.LTE, age, level(lte.getRsrp()), level(lte.getRsrq()),
                    decibels(lte.getRssnr()), level(lte.getRssi()));
        } else if (older != null && isAvailable(older.getDbm())) {
            radio.measured(technology(older), age, Double.NaN, Double.NaN, Double.NaN, older.getDbm());
        }
    }

    private static Technology technology(CellSignalStrength older) {
        if (older instanceof CellSignalStrengthGsm) {
            return Technology.GSM;
        }
        boolean third = older instanceof CellSignalStrengthWcdma || older instanceof CellSignalStrengthTdscdma;
        return third ? Technology.UMTS : Technology.UNKNOWN;
    }

    /** LTE's signal-to-noise ratio: in dB from Android 12 on, in tenths of a dB before. */
    static double decibels(int rssnr) {
        double scale = Build.VERSION.SDK_INT >= Build.VERSION_CODES.S ? 1 : 10;
        return level(rssnr) / scale;
    }

    static double level(int value) {
        return isAvailable(value) ? value : Double.NaN;
    }

    private static boolean isAvailable(int value) {
        return value != CellInfo.UNAVAILABLE;
    }

    private static long ageMicros(SignalStrength strength) {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.R) {
            return 0;
        }
        long millis = SystemClock.elapsedRealtime() - timestamp30(strength);
        return millis > 0 && millis < MAX_AGE_MILLIS ? millis * 1000 : 0;
    }

    @RequiresApi(30)
    private static long timestamp30(SignalStrength strength) {
        return strength.getTimestampMillis();
    }
}
