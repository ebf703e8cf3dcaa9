package dev.squall.core;

/** The levels of a radio at one time. A level that the radio does not report is NaN. */
public final class Reading {
    /** Radio technologies, in the order of their codes in the native library. */
    public enum Technology {
        /** Not reported. */
        UNKNOWN,
        /** IEEE 802.11 of any generation. */
        WIFI,
        /** GSM, GPRS, EDGE. */
        GSM,
        /** UMTS and HSPA. */
        UMTS,
        /** LTE and LTE-A. */
        LTE,
        /** 5G non-standalone, with an LTE anchor. */
        NR_NSA,
        /** 5G standalone. */
        NR
    }

    private static final Technology[] TECHNOLOGIES = Technology.values();

    /** Radio technology. */
    public final Technology technology;
    /** The radio has no network. */
    public final boolean disconnected;
    /** Age of the measurement in microseconds. */
    public final long ageMicros;
    /** Reference signal received power in dBm, in LTE and 5G. */
    public final double rsrp;
    /** Reference signal received quality in dB, in LTE and 5G. */
    public final double rsrq;
    /** Signal to interference and noise ratio in dB. */
    public final double sinr;
    /** Received signal strength in dBm. */
    public final double rssi;

    /**
     * Creates a reading of an application's own source.
     *
     * @param ageMicros age of the measurement in microseconds
     * @param rsrp in dBm; NaN if not reported, as for the other levels
     */
    public Reading(Technology technology, boolean disconnected, long ageMicros, double rsrp, double rsrq,
            double sinr, double rssi) {
        this.technology = technology;
        this.disconnected = disconnected;
        this.ageMicros = ageMicros;
        this.rsrp = rsrp;
        this.rsrq = rsrq;
        this.sinr = sinr;
        this.rssi = rssi;
    }

    private Reading(double[] values) {
        technology = TECHNOLOGIES[(int) values[0]];
        disconnected = values[1] != 0;
        ageMicros = (long) values[2];
        rsrp = values[3];
        rsrq = values[4];
        sinr = values[5];
        rssi = values[6];
    }

    /** Creates a reading from the values of {@link Native#radioLatest}; null for null. */
    public static Reading of(double[] values) {
        return values == null ? null : new Reading(values);
    }

    @Override
    public String toString() {
        return technology + (disconnected ? " disconnected" : "") + " rsrp " + rsrp + " rsrq " + rsrq
                + " sinr " + sinr + " rssi " + rssi;
    }
}
