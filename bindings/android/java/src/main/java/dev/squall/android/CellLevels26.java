package dev.squall.android;

import android.Manifest;
import android.content.Context;
import android.content.pm.PackageManager;
import android.telephony.CellInfo;
import android.telephony.CellInfoGsm;
import android.telephony.CellInfoLte;
import android.telephony.CellInfoWcdma;
import android.telephony.CellSignalStrengthLte;
import android.telephony.SignalStrength;
import android.telephony.TelephonyManager;

import dev.squall.core.Reading.Technology;

import java.util.List;

/**
 * Levels of the mobile network on Android 8 and 9, which report little to applications: with the permission for
 * the location, the levels of the serving cell; without it, GSM's level, and for other technologies the number
 * of bars.
 */
final class CellLevels26 {
    /** GSM level 0 in dBm; each level adds 2 dB (3GPP TS 27.007 §8.5). */
    private static final int ASU_BASE = -113;

    /** The highest GSM level; higher values mean unknown. */
    private static final int ASU_MAX = 31;

    /** RSRP in dBm for each number of bars: the middle of its range by Android's thresholds for LTE. */
    private static final double[] RSRP_OF_BARS = {Double.NaN, -123, -113, -103, -93};

    private CellLevels26() {}

    static void push(Context context, TelephonyManager manager, SignalStrength strength, Radio radio) {
        if (mayAskForCells(context) && pushCells(manager, radio)) {
            return;
        }
        int asu = strength.getGsmSignalStrength();
        double rsrp = RSRP_OF_BARS[Math.max(0, Math.min(strength.getLevel(), RSRP_OF_BARS.length - 1))];
        if (strength.isGsm() && asu >= 0 && asu <= ASU_MAX) {
            radio.measured(Technology.GSM, 0, Double.NaN, Double.NaN, Double.NaN, ASU_BASE + 2 * asu);
        } else if (!Double.isNaN(rsrp)) {
            radio.measured(Technology.UNKNOWN, 0, rsrp, Double.NaN, Double.NaN, Double.NaN);
        }
    }

    private static boolean mayAskForCells(Context context) {
        return context.checkSelfPermission(Manifest.permission.ACCESS_COARSE_LOCATION)
                == PackageManager.PERMISSION_GRANTED;
    }

    /** Pushes the levels of the serving cell; returns false if Android reports none. */
    private static boolean pushCells(TelephonyManager manager, Radio radio) {
        List<CellInfo> cells;
        try {
            cells = manager.getAllCellInfo();
        } catch (SecurityException withoutPermission) {
            return false;
        }
        if (cells == null) {
            return false;
        }
        for (CellInfo cell : cells) {
            if (cell.isRegistered() && pushCell(cell, radio)) {
                return true;
            }
        }
        return false;
    }

    private static boolean pushCell(CellInfo cell, Radio radio) {
        if (cell instanceof CellInfoLte) {
            CellSignalStrengthLte lte = ((CellInfoLte) cell).getCellSignalStrength();
            radio.measured(Technology.LTE, 0, level(lte.getRsrp()), level(lte.getRsrq()),
                    level(lte.getRssnr()) / 10, Double.NaN);
        } else if (cell instanceof CellInfoWcdma) {
            int dbm = ((CellInfoWcdma) cell).getCellSignalStrength().getDbm();
            radio.measured(Technology.UMTS, 0, Double.NaN, Double.NaN, Double.NaN, level(dbm));
        } else if (cell instanceof CellInfoGsm) {
            int dbm = ((CellInfoGsm) cell).getCellSignalStrength().getDbm();
            radio.measured(Technology.GSM, 0, Double.NaN, Double.NaN, Double.NaN, level(dbm));
        } else {
            return false;
        }
        return true;
    }

    private static double level(int value) {
        return value == Integer.MAX_VALUE ? Double.NaN : value;
    }
}
