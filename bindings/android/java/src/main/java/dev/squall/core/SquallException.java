package dev.squall.core;

import java.io.IOException;

/** Failure of a call, with a one-line message that names the remedy. */
public class SquallException extends IOException {
    private static final long serialVersionUID = 1;

    /** Creates the exception with a message. */
    public SquallException(String line) {
        super(line);
    }
}
