package dev.squall.core;

/** The send queue has no room for a block. {@link Event.Kind#WRITABLE} follows when half of the queue is free. */
public final class QueueFullException extends SquallException {
    private static final long serialVersionUID = 1;

    /** With a line that says so. */
    public QueueFullException(String line) {
        super(line);
    }
}
