package dev.squall.core;

import java.io.IOException;

/** Why something did not work, in a line that says what to do. */
public class SquallException extends IOException {
    private static final long serialVersionUID = 1;

    /** With that line. */
    public SquallException(String line) {
        super(line);
    }
}
