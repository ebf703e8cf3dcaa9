package dev.squall.core;

/** An event of a session. */
public final class Event {
    /** Kinds of events. */
    public enum Kind {
        /** A block arrived: {@link #data}. */
        RECEIVED,
        /** A block of the peer will not arrive. */
        MISSED,
        /** A block of this side arrived. */
        DELIVERED,
        /** A block of this side missed its deadline. */
        EXPIRED,
        /** A block of this side was sent unreliably, and bytes of it were lost. */
        LOST,
        /** A block of this side was cancelled, or ended with the session. */
        CANCELLED,
        /** The peer refused a block of this side. */
        REFUSED,
        /** There is room again after {@link QueueFullException}. */
        WRITABLE,
        /** A path can carry data. */
        PATH_UP,
        /** A path fell silent and carries no new data. */
        PATH_SUSPECTED,
        /** A suspected path delivers again. */
        PATH_READMITTED,
        /** A radio at one end of a path reports a change. */
        PATH_SIGNAL,
        /** A path could not be opened, or was closed. */
        PATH_DOWN,
        /** The session has ended; the last event. */
        CLOSED
    }

    private static final Kind[] KINDS = Kind.values();

    /** Kind of the event. */
    public final Kind kind;
    /** Number of the block at its sender; -1 without a block. */
    public final long block;
    /** Channel of a received or missed block. */
    public final int channel;
    /** Priority of a received or missed block. */
    public final int priority;
    /** Bytes of a received block, with zeros for missing ones; otherwise null. */
    public final byte[] data;
    /**
     * First byte, and one past the last, of each missing range of a partial block; empty if the block is
     * complete, null if none was received. The last range ends at 16 MiB, beyond the data, if the length of
     * the block was never received.
     */
    public final int[] missing;
    /** Number of the path; -1 without a path. */
    public final int path;
    /** Evidence or reason; may be empty. */
    public final String text;

    /** Called by the native library. */
    Event(int kind, long block, int channel, int priority, byte[] data, int[] missing, int path,
            String text) {
        this.kind = KINDS[kind];
        this.block = block;
        this.channel = channel;
        this.priority = priority;
        this.data = data;
        this.missing = missing;
        this.path = path;
        this.text = text;
    }

    @Override
    public String toString() {
        String about = block >= 0 ? " block " + block : path >= 0 ? " path " + path : "";
        return kind + about + (text.isEmpty() ? "" : ": " + text);
    }
}
