package dev.squall.core;

/** A path of a session, and its counters since the session began. */
public final class PathInfo {
    /** Number of the path, as in events. */
    public final int path;
    /** Name of the network: {@code wifi}, {@code cellular}. */
    public final String network;
    /** Address and port of this side. */
    public final String local;
    /** Address and port of the peer. */
    public final String remote;
    /** {@code opening} until the peer has answered, {@code active}, {@code suspect} or {@code deactivated}. */
    public final String state;
    /** Its bytes cost money, as declared by either side. */
    public final boolean metered;
    /** Factor by which schedulers reduce its use: 1 unless a radio reports a fade. */
    public final double signalFactor;
    /** Quality index of the radio at this end, 0 to 1; NaN without a reading. */
    public final double signalQuality;
    /** Smoothed round-trip time in microseconds. */
    public final long roundTripMicros;
    /** Delivery rate in bits per second. */
    public final long rate;
    /** Share of packets lost over the last two seconds. */
    public final double loss;
    /** Bytes sent, as UDP payload. */
    public final long sentBytes;
    /** Bytes received, as UDP payload. */
    public final long receivedBytes;
    /** Bytes of blocks sent, repairs and copies included. */
    public final long dataSent;
    /** Bytes of blocks received, duplicates included. */
    public final long dataReceived;

    /** Called by the native library. */
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
