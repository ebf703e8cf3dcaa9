package dev.squall.core;

/**
 * The native library. Numeric handles identify its radios, networks and sessions. A closed handle is invalid
 * and never reused.
 *
 * <p>Applications use {@code dev.squall.android}; this class and its package are independent of Android.
 */
public final class Native {
    static {
        System.loadLibrary("squall_android");
    }

    private Native() {}

    /** Opens a radio without a reading. */
    public static native long radioOpen() throws SquallException;

    /** Closes a radio. Sessions that used it keep its last reading. */
    public static native void radioClose(long radio);

    /**
     * Publishes the latest reading of a radio. Only stores numbers: it never waits for other threads.
     *
     * @param technology the ordinal of the {@link Reading.Technology}
     * @param ageMicros age of the measurement in microseconds
     * @param rsrp in dBm; NaN if not reported, as for the other levels
     * @return false if the radio is closed, and possibly if other threads push to it at the same time
     */
    public static native boolean radioPush(
            long radio, int technology, boolean disconnected, long ageMicros,
            double rsrp, double rsrq, double sinr, double rssi);

    /** Returns the latest reading, for {@link Reading#of}; null before the first. */
    public static native double[] radioLatest(long radio) throws SquallException;

    /** Opens a network: its paths have this name, and the binder binds their sockets to it. */
    public static native long networkOpen(String name, SocketBinder binder) throws SquallException;

    /** Sets a network's own addresses, separated by spaces, and its metered flag. */
    public static native void networkUpdate(long network, String addresses, boolean metered) throws SquallException;

    /** Closes a network. A session uses it until its next {@link #setNetworks}. */
    public static native void networkClose(long network);

    /**
     * Starts to connect; {@link #awaitConnected} waits for the result. Except for the host, null and times of 0
     * select the default.
     */
    public static native long connect(
            String host, String serverName, String fingerprint, byte[][] roots, long[] networks,
            String scheduler, String congestion, long connectTimeoutMicros, long idleTimeoutMicros)
            throws SquallException;

    /**
     * Waits until a session is connected; returns false after the timeout. Must be called until it returns
     * true, before any other call takes events.
     *
     * @throws SquallException if the server cannot be reached or cannot be trusted
     */
    public static native boolean awaitConnected(long session, long timeoutMicros) throws SquallException;

    /** Sends a block from a direct buffer; a deadline of 0 means none. Returns the block's number. */
    public static native long sendDirect(
            long session, java.nio.ByteBuffer data, int position, int length,
            long deadlineMicros, int priority, boolean reliable, int channel, boolean ordered,
            boolean partial)
            throws SquallException;

    /** Sends a block from an array. */
    public static native long sendArray(
            long session, byte[] data, int position, int length,
            long deadlineMicros, int priority, boolean reliable, int channel, boolean ordered,
            boolean partial)
            throws SquallException;

    /** Cancels a block. */
    public static native void cancel(long session, long block) throws SquallException;

    /** Waits for the next event; returns null after the timeout. */
    public static native Event next(long session, long timeoutMicros) throws SquallException;

    /**
     * Takes the next event without waiting; null if there is none yet. Blocks that are not taken apply back
     * pressure to the peer, but do not delay the other events.
     *
     * @param arrivals true to take {@link Event.Kind#RECEIVED} and {@link Event.Kind#MISSED}, false to take
     * all others
     * @throws SquallException after the last one of these, or if the session is released
     */
    public static native Event take(long session, boolean arrivals) throws SquallException;

    /** Makes {@link #ready} report a session now, and whenever {@link #take} has new events. */
    public static native void watch(long session) throws SquallException;

    /**
     * Waits for a watched session with new events, which is then reported to no other caller; returns its
     * number, or 0 after the timeout. Also reports a session that is released.
     */
    public static native long ready(long timeoutMicros);

    /** Replaces the networks that a session uses. */
    public static native void setNetworks(long session, long[] networks) throws SquallException;

    /**
     * Sets the radio of a session for all networks of a name, including future ones; 0 for none.
     */
    public static native void setSignal(long session, String network, long radio) throws SquallException;

    /** Limits the bytes that may be sent over the networks of a name; no limit if negative. */
    public static native void setBudget(long session, String network, long bytes) throws SquallException;

    /** Returns the open paths of a session. */
    public static native PathInfo[] paths(long session) throws SquallException;

    /** Waits until all blocks have ended, then closes the session. */
    public static native void finish(long session, long timeoutMicros) throws SquallException;

    /** Closes a session; its last events can still be read. */
    public static native void close(long session, int code, String reason);

    /** Releases a session; a thread waiting for its events returns. */
    public static native void release(long session);
}
