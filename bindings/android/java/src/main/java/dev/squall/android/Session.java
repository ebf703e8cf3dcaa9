package dev.squall.android;

import dev.squall.core.Event;
import dev.squall.core.Native;
import dev.squall.core.PathInfo;
import dev.squall.core.SquallException;

import java.nio.ByteBuffer;
import java.security.cert.CertificateEncodingException;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.concurrent.Executor;

/**
 * A session with a server: sends blocks and receives events. May be used from all threads. Once closed, every
 * call but {@link #close} fails with a {@link SquallException}.
 */
public final class Session implements AutoCloseable {
    /** No deadline, for {@link #send}. */
    public static final long NO_DEADLINE = 0;

    /** Timeout of a wait of the thread that takes events. The value is not critical: events wake it. */
    private static final long WAIT_MICROS = 1_000_000;

    /** Time that the connecting thread waits between checks for an interrupt. */
    private static final long CONNECT_WAIT_MICROS = 50_000;

    private final long number;
    private final Networks networks;
    private boolean closed;
    private Thread listening;

    private Session(long number, Networks networks) {
        this.number = number;
        this.networks = networks;
    }

    /** Receives events; see {@link #listen}. */
    public interface Listener {
        /** Called for each event. {@link Event.Kind#CLOSED} is the last. */
        void onEvent(Event event);
    }

    /**
     * Sends the bytes between position and limit of a buffer as one block; the position is at the limit
     * afterwards. Does not wait.
     *
     * @param deadlineMicros microseconds from now until the block is worthless, or {@link #NO_DEADLINE}
     * @param priority 0, the most important, to 7
     * @param reliable true to send lost bytes again
     * @param channel below 1,024
     * @return the block's number, as in events
     * @throws dev.squall.core.QueueFullException if there is no room; the buffer is unchanged
     * @throws SquallException if the session is over or the block too large
     * @throws IllegalArgumentException if the buffer is empty, or there is no such priority or channel
     */
    public long send(ByteBuffer data, long deadlineMicros, int priority, boolean reliable, int channel)
            throws SquallException {
        return send(data, deadlineMicros, priority, reliable, channel, false, false);
    }

    /**
     * As {@link #send(ByteBuffer, long, int, boolean, int)}.
     *
     * @param ordered true to deliver it after the previous ordered block of its channel
     * @param partial true to give the peer the part that arrived if it ends incomplete, by its deadline or by
     * losses
     */
    public long send(ByteBuffer data, long deadlineMicros, int priority, boolean reliable, int channel,
            boolean ordered, boolean partial) throws SquallException {
        int position = data.position();
        int length = data.remaining();
        long block;
        if (data.isDirect()) {
            block = Native.sendDirect(number, data, position, length, deadlineMicros, priority, reliable,
                    channel, ordered, partial);
        } else if (data.hasArray()) {
            block = Native.sendArray(number, data.array(), data.arrayOffset() + position, length,
                    deadlineMicros, priority, reliable, channel, ordered, partial);
        } else {
            byte[] copy = new byte[length];
            data.duplicate().get(copy);
            block = Native.sendArray(number, copy, 0, length, deadlineMicros, priority, reliable, channel,
                    ordered, partial);
        }
        data.position(position + length);
        return block;
    }

    /** Returns the number in the native library. */
    long number() {
        return number;
    }

    /** Cancels a block. Its outcome is {@link Event.Kind#CANCELLED}, unless it ended earlier. */
    public void cancel(long block) throws SquallException {
        Native.cancel(number, block);
    }

    /**
     * Waits for the next event; returns null after the timeout. Received blocks that stay in the queue apply
     * back pressure to the peer. Cannot be combined with {@link #listen}.
     */
    public Event poll(long timeoutMillis) throws SquallException {
        long end = System.nanoTime() + timeoutMillis * 1_000_000;
        Event event;
        do {
            long left = Math.max(0, end - System.nanoTime()) / 1000;
            event = Native.next(number, Math.min(left, WAIT_MICROS));
        } while (event == null && System.nanoTime() < end);
        return event;
    }

    /** Delivers every event to a listener on an executor; in order if the executor keeps it. Once only. */
    public synchronized void listen(Executor executor, Listener listener) throws SquallException {
        if (listening != null) {
            throw new IllegalStateException("the session has a listener");
        }
        if (closed) {
            throw new SquallException("the session is closed");
        }
        listening = new Thread(() -> pump(executor, listener), "squall-events");
        listening.setDaemon(true);
        listening.start();
    }

    /** Returns the open paths; after the session has ended, its last ones. */
    public PathInfo[] paths() throws SquallException {
        return Native.paths(number);
    }

    /**
     * Limits the bytes that this side may send over networks of a kind in this session; no limit if negative.
     * If the scheduler has a cap too, the smaller of the two applies.
     */
    public void setBudget(Transport transport, long bytes) throws SquallException {
        Native.setBudget(number, transport.label, bytes);
    }

    /** Waits until every block has ended, then closes the session. */
    public void finish(long timeoutMillis) throws SquallException {
        try {
            Native.finish(number, timeoutMillis * 1000);
        } finally {
            close();
        }
    }

    /** Closes the session at once; unfinished blocks end with it. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        networks.detach(number);
        Native.close(number, 0, "");
        if (listening == null) {
            Native.release(number);
        }
    }

    private void pump(Executor executor, Listener listener) {
        try {
            boolean over = false;
            while (!over) {
                Event event = Native.next(number, WAIT_MICROS);
                if (event != null) {
                    over = event.kind == Event.Kind.CLOSED;
                    executor.execute(() -> listener.onEvent(event));
                }
            }
        } catch (SquallException released) {
            android.util.Log.d("squall", "events end: " + released.getMessage());
        } finally {
            networks.detach(number);
            Native.release(number);
        }
    }

    /** The settings of a session. */
    public static final class Builder {
        private final String host;
        private String serverName;
        private String fingerprint;
        private byte[][] roots;
        private String scheduler;
        private String congestion;
        private long connectTimeoutMillis = 10_000;
        private long idleTimeoutMillis;

        /** Connects to {@code host:port}: a name, an IPv4 address, or an IPv6 address in brackets. */
        public Builder(String host) {
            this.host = host;
        }

        /** Sets the name that the certificate must have. Default: the host. */
        public Builder serverName(String name) {
            serverName = name;
            return this;
        }

        /** Trusts the certificate with this fingerprint, SHA-256 in hexadecimal digits, under any name. */
        public Builder fingerprint(String fingerprint) {
            this.fingerprint = fingerprint;
            return this;
        }

        /** Trusts these certificate authorities. */
        public Builder roots(Collection<X509Certificate> authorities) throws SquallException {
            byte[][] encoded = new byte[authorities.size()][];
            int index = 0;
            try {
                for (X509Certificate authority : authorities) {
                    encoded[index++] = authority.getEncoded();
                }
            } catch (CertificateEncodingException error) {
                throw new SquallException("authority " + index + " cannot be encoded: " + error.getMessage());
            }
            roots = encoded;
            return this;
        }

        /** Trusts the authorities trusted by this phone. */
        public Builder platformRoots() throws SquallException {
            return roots(PlatformRoots.list());
        }

        /** Sets the scheduler, with options: {@code storm(alpha=0.5)}. Default: {@code squall}. */
        public Builder scheduler(String description) {
            scheduler = description;
            return this;
        }

        /** Sets the congestion control of every path. Default: {@code steady}. */
        public Builder congestion(String name) {
            congestion = name;
            return this;
        }

        /** Sets the timeout for a network, and then for the handshake. Default: 10 s each. */
        public Builder connectTimeout(long millis) {
            connectTimeoutMillis = millis;
            return this;
        }

        /** Sets the time after which a session without received data ends. Default: 30 s. */
        public Builder idleTimeout(long millis) {
            idleTimeoutMillis = millis;
            return this;
        }

        /**
         * Connects over all available networks at once; networks that appear later are added. Blocks: do not
         * call it on the main thread. An interrupt of the thread cancels it.
         *
         * @param signals the radios whose readings the session uses; null for none
         * @throws SquallException if the server cannot be reached or cannot be trusted, or after an interrupt
         */
        public Session connect(Networks networks, Signals signals) throws SquallException {
            awaitNetwork(networks);
            long number = Native.connect(host, serverName, fingerprint, roots, networks.numbers(), scheduler,
                    congestion, connectTimeoutMillis * 1000, idleTimeoutMillis * 1000);
            try {
                awaitConnected(number);
                networks.attach(number);
                if (signals != null) {
                    for (Transport transport : Transport.values()) {
                        Native.setSignal(number, transport.label, signals.radio(transport).number());
                    }
                }
            } catch (SquallException error) {
                networks.detach(number);
                Native.release(number);
                throw error;
            }
            return new Session(number, networks);
        }

        private static void awaitConnected(long number) throws SquallException {
            while (!Native.awaitConnected(number, CONNECT_WAIT_MICROS)) {
                if (Thread.currentThread().isInterrupted()) {
                    throw new SquallException("interrupted while connecting");
                }
            }
        }

        private void awaitNetwork(Networks networks) throws SquallException {
            try {
                if (!networks.await(connectTimeoutMillis)) {
                    throw new SquallException("no network within " + connectTimeoutMillis + " ms");
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new SquallException("interrupted while waiting for a network");
            }
        }
    }
}
