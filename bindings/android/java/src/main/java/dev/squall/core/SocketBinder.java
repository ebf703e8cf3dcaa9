package dev.squall.core;

import java.io.IOException;

/** Binds sockets to a network. */
public interface SocketBinder {
    /**
     * Binds a socket that has no address yet. Called once for each socket, from the thread that connects or
     * from a native one; the descriptor stays the caller's.
     *
     * @throws IOException if it cannot be done; there is no path over the network then, for now
     */
    void bind(int fd) throws IOException;
}
