package dev.squall.android;

import android.net.Network;

import org.robolectric.annotation.Implementation;
import org.robolectric.annotation.Implements;

import java.io.FileDescriptor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;

/** Records the sockets that were bound to a network, and can refuse to bind. */
@Implements(Network.class)
public final class ShadowBinding {
    /** The sockets, by their names in the kernel: {@code socket:[1234]}. */
    final List<String> bound = new ArrayList<>();
    /** Message of the refusal; null to bind. */
    volatile String refusal;

    @Implementation
    protected synchronized void bindSocket(FileDescriptor descriptor) throws IOException {
        if (refusal != null) {
            throw new IOException(refusal);
        }
        try {
            bound.add(Files.readSymbolicLink(Paths.get("/proc/self/fd/" + ShadowDescriptor.of(descriptor))).toString());
        } catch (ReflectiveOperationException error) {
            throw new IOException(error);
        }
    }
}
