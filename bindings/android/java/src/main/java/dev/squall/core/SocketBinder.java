package dev.squall.core;

import java.io.IOException;

/** Binds sockets to a network. */
public interface SocketBinder {
    /**
     * Binds a socket that has no address yet. Called once for each socket, from the connecting thread or from
     * a native one; the caller keeps the descriptor.
     *
     * @throws IOException if binding fails; there is then no path over the network for now
     */
    void bind(int fd) throws IOException;
}
