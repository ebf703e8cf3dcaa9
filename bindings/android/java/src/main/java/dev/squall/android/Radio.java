package dev.squall.android;

import dev.squall.core.Native;
import dev.squall.core.Reading;
import dev.squall.core.Reading.Technology;
import dev.squall.core.SquallException;

/** A radio of this phone. Combines the reports of several callbacks and pushes complete readings. */
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

    /** Returns the number in the native library. */
    long number() {
        return number;
    }

    /** Called when the radio has measured. Levels that Android does not report are NaN. */
    synchronized void measured(Technology technology, long ageMicros, double rsrp, double rsrq, double sinr,
            double rssi) {
        this.technology = technology;
        this.rsrp = rsrp;
        this.rsrq = rsrq;
        this.sinr = sinr;
        this.rssi = rssi;
        push(ageMicros);
    }

    /** Forwards a complete reading of another source. */
    void push(Reading reading) {
        Native.radioPush(number, reading.technology.ordinal(), reading.disconnected, reading.ageMicros, reading.rsrp,
                reading.rsrq, reading.sinr, reading.rssi);
    }

    /** Called when the radio has lost its network, or has one again. */
    synchronized void networkLost(boolean lost) {
        if (this.lost != lost) {
            this.lost = lost;
            push(0);
        }
    }

    /** Called when the radio is out of service, or is registered with a network again. */
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
