package dev.squall.android;

import android.net.Network;
import android.os.ParcelFileDescriptor;

import dev.squall.core.SocketBinder;

import java.io.IOException;

/** Binds sockets to one of Android's networks. */
final class NetworkBinder implements SocketBinder {
    private final Network network;

    NetworkBinder(Network network) {
        this.network = network;
    }

    @Override
    public void bind(int fd) throws IOException {
        // A second descriptor of the same socket, closed afterwards: the native library keeps the first.
        try (ParcelFileDescriptor descriptor = ParcelFileDescriptor.fromFd(fd)) {
            network.bindSocket(descriptor.getFileDescriptor());
        }
    }
}
