package dev.squall.core;

/** A path of a session, and its counters since the session began. */
public final class PathInfo {
    /** Its number, as in events. */
    public final int path;
    /** The network's name: {@code wifi}, {@code cellular}. */
    public final String network;
    /** Address and port of this side. */
    public final String local;
    /** Address and port of the peer. */
    public final String remote;
    /** {@code opening} until the peer has answered, {@code active}, {@code suspect} or {@code deactivated}. */
    public final String state;
    /** Whether its bytes cost money, as either side says. */
    public final boolean metered;
    /** The factor by which schedulers shun it: 1 unless a radio gave a warning. */
    public final double signalFactor;
    /** The quality index of the radio here, 0 to 1; NaN if none is read. */
    public final double signalQuality;
    /** Smoothed round-trip time in microseconds. */
    public final long roundTripMicros;
    /** Delivery rate in bits per second. */
    public final long rate;
    /** Share of packets lost over the last two seconds. */
    public final double loss;
    /** Bytes sent, in UDP. */
    public final long sentBytes;
    /** Bytes received, in UDP. */
    public final long receivedBytes;
    /** Bytes of blocks sent, repairs and copies included. */
    public final long dataSent;
    /** Bytes of blocks received, duplicates included. */
    public final long dataReceived;

    /** Made by the native library. */
    PathInfo(int path, String network, String local, String remote, String state, boolean metered,
            double signalFactor, double signalQuality, long roundTripMicros, long rate, double loss,
            long sentBytes, long receivedBytes, long dataSent, long dataReceived) {
        this.path = path;
        this.network = network;
        this.local = local;
        this.remote = remote;
        this.state = state;
        this.metered = metered;
        this.signalFactor = signalFactor;
        this.signalQuality = signalQuality;
        this.roundTripMicros = roundTripMicros;
        this.rate = rate;
        this.loss = loss;
        this.sentBytes = sentBytes;
        this.receivedBytes = receivedBytes;
        this.dataSent = dataSent;
        this.dataReceived = dataReceived;
    }

    @Override
    public String toString() {
        return network + " " + local + " to " + remote + ": " + state + ", " + dataSent + " bytes sent";
    }
}
