package dev.squall.core;

/** The send queue has no room for a block. {@link Event.Kind#WRITABLE} follows when half of the queue is free. */
public final class QueueFullException extends SquallException {
    private static final long serialVersionUID = 1;

    /** Creates the exception with a message. */
    public QueueFullException(String line) {
        super(line);
    }
}
