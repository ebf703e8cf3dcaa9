package dev.squall.core;

/**
 * A block was not taken, for want of room. {@link Event.Kind#WRITABLE} comes when half of the queue is free.
 */
public final class QueueFullException extends SquallException {
    private static final long serialVersionUID = 1;

    /** With a line that says so. */
    public QueueFullException(String line) {
        super(line);
    }
}
