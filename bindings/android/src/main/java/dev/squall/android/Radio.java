package dev.squall.android;

import dev.squall.core.Native;
import dev.squall.core.Reading;
import dev.squall.core.Reading.Technology;
import dev.squall.core.SquallException;

/** A radio of this phone: puts together what different callbacks tell of it, and pushes the whole. */
final class Radio {
    private final long number;
    private Technology technology;
    private double rsrp = Double.NaN;
    private double rsrq = Double.NaN;
    private double sinr = Double.NaN;
    private double rssi = Double.NaN;
    private boolean lost;
    private boolean outOfService;

    Radio(Technology technology) throws SquallException {
        this.technology = technology;
        number = Native.radioOpen();
    }

    /** The number in the native library. */
    long number() {
        return number;
    }

    /** It measured. Levels that are not told are NaN. */
    synchronized void measured(Technology technology, long ageMicros, double rsrp, double rsrq, double sinr,
            double rssi) {
        this.technology = technology;
        this.rsrp = rsrp;
        this.rsrq = rsrq;
        this.sinr = sinr;
        this.rssi = rssi;
        push(ageMicros);
    }

    /** Its network is there, or gone. */
    synchronized void networkLost(boolean lost) {
        if (this.lost != lost) {
            this.lost = lost;
            push(0);
        }
    }

    /** It is registered with a network, or not. */
    synchronized void outOfService(boolean out) {
        if (outOfService != out) {
            outOfService = out;
            push(0);
        }
    }

    Reading latest() throws SquallException {
        return Reading.of(Native.radioLatest(number));
    }

    void close() {
        Native.radioClose(number);
    }

    private void push(long ageMicros) {
        Native.radioPush(number, technology.ordinal(), lost || outOfService, ageMicros, rsrp, rsrq, sinr, rssi);
    }
}
