package dev.squall.core;

/** Something that happened in a session. */
public final class Event {
    /** What. */
    public enum Kind {
        /** A block arrived: {@link #data}. */
        RECEIVED,
        /** A block of the peer's will not arrive. */
        MISSED,
        /** A block of ours arrived. */
        DELIVERED,
        /** A block of ours was too late. */
        EXPIRED,
        /** A block of ours was sent unreliably, and bytes of it were lost. */
        LOST,
        /** A block of ours was taken back, or ended with the session. */
        CANCELLED,
        /** The peer would not take a block of ours. */
        REFUSED,
        /** There is room again after {@link QueueFullException}. */
        WRITABLE,
        /** A path may carry data. */
        PATH_UP,
        /** A path fell silent and carries nothing new. */
        PATH_SUSPECTED,
        /** A path proved to deliver again. */
        PATH_READMITTED,
        /** A radio at one end of a path said something new. */
        PATH_SIGNAL,
        /** A path could not be opened, or is gone. */
        PATH_DOWN,
        /** The session is over; the last event. */
        CLOSED
    }

    private static final Kind[] KINDS = Kind.values();

    /** What happened. */
    public final Kind kind;
    /** The block's number at its sender; -1 if it is about none. */
    public final long block;
    /** The channel of a received or missed block. */
    public final int channel;
    /** The priority of a received or missed block. */
    public final int priority;
    /** The bytes of a received block, zeros for those that are missing; else null. */
    public final byte[] data;
    /**
     * The first byte of each range that did not arrive of a partial block, and one past its last; empty if the block is
     * whole, null if none was received. The last range ends at 16 MiB, beyond the data, if the length of the block never
     * became known.
     */
    public final int[] missing;
    /** The path's number; -1 if it is about none. */
    public final int path;
    /** The evidence, or the reason; may be empty. */
    public final String text;

    /** Made by the native library. */
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
