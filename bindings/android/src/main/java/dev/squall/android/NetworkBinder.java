package dev.squall.android;

import android.net.Network;
import android.os.ParcelFileDescriptor;

import dev.squall.core.SocketBinder;

import java.io.IOException;

/** Binds sockets to a network of Android's. */
final class NetworkBinder implements SocketBinder {
    private final Network network;

    NetworkBinder(Network network) {
        this.network = network;
    }

    @Override
    public void bind(int fd) throws IOException {
        // A second descriptor of the same socket, which is closed again: the first stays the native library's.
        try (ParcelFileDescriptor descriptor = ParcelFileDescriptor.fromFd(fd)) {
            network.bindSocket(descriptor.getFileDescriptor());
        }
    }
}
