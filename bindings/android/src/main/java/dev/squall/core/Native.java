package dev.squall.core;

/**
 * The native library. Numbers stand for what it holds: radios, networks, sessions. A number that was closed
 * stands for nothing; it is not given again.
 *
 * <p>Applications use {@code dev.squall.android}; this class and its package know nothing of Android.
 */
public final class Native {
    static {
        System.loadLibrary("squall_android");
    }

    private Native() {}

    /** A new radio that has said nothing yet. */
    public static native long radioOpen() throws SquallException;

    /** Ends a radio. Sessions that went by it keep its last reading. */
    public static native void radioClose(long radio);

    /**
     * Makes a reading the latest of a radio: stores numbers and returns, whatever other threads are at.
     *
     * @param technology place of the technology in {@link Reading.Technology}
     * @param ageMicros how long ago the radio measured, in microseconds
     * @param rsrp in dBm, NaN if not told; so the others
     * @return whether it was taken: not if the radio is closed
     */
    public static native boolean radioPush(
            long radio, int technology, boolean disconnected, long ageMicros,
            double rsrp, double rsrq, double sinr, double rssi);

    /** The latest reading, for {@link Reading#of}; null before the first. */
    public static native double[] radioLatest(long radio) throws SquallException;

    /** A new network by the name that its paths bear, and what binds sockets to it. */
    public static native long networkOpen(String name, SocketBinder binder) throws SquallException;

    /** What is known of a network: its own addresses, separated by spaces, and whether its bytes cost money. */
    public static native void networkUpdate(long network, String addresses, boolean metered) throws SquallException;

    /** Forgets a network. Sessions use it until they are told of others. */
    public static native void networkClose(long network);

    /** Connects, and waits for it. Strings may be null for the default, times 0. */
    public static native long connect(
            String host, String serverName, String fingerprint, byte[][] roots, long[] networks,
            String scheduler, String congestion, long connectTimeoutMicros, long idleTimeoutMicros)
            throws SquallException;

    /** Hands over a block from a direct buffer; a deadline of 0 is none. Returns the block's number. */
    public static native long sendDirect(
            long session, java.nio.ByteBuffer data, int position, int length,
            long deadlineMicros, int priority, boolean reliable, int channel, boolean ordered)
            throws SquallException;

    /** Hands over a block from an array. */
    public static native long sendArray(
            long session, byte[] data, int position, int length,
            long deadlineMicros, int priority, boolean reliable, int channel, boolean ordered)
            throws SquallException;

    /** Takes a block back. */
    public static native void cancel(long session, long block) throws SquallException;

    /** Waits for the next event; null if there is none in time. */
    public static native Event next(long session, long timeoutMicros) throws SquallException;

    /** Has a session run over these networks from now on. */
    public static native void setNetworks(long session, long[] networks) throws SquallException;

    /** Has a session go by a radio for the networks of a name; by none for 0. */
    public static native void setSignal(long session, String network, long radio) throws SquallException;

    /** Sets what may be sent over the networks of a name, in bytes; anything if negative. */
    public static native void setBudget(long session, String network, long bytes) throws SquallException;

    /** The open paths of a session. */
    public static native PathInfo[] paths(long session) throws SquallException;

    /** Waits until all blocks have ended, then closes the session. */
    public static native void finish(long session, long timeoutMicros) throws SquallException;

    /** Closes a session; its last events can still be taken. */
    public static native void close(long session, int code, String reason);

    /** Lets a session go. */
    public static native void release(long session);
}
