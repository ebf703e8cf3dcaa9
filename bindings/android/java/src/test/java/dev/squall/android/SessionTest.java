package dev.squall.android;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.app.Application;
import android.net.ConnectivityManager;

import dev.squall.core.Event;
import dev.squall.core.PathInfo;
import dev.squall.core.QueueFullException;
import dev.squall.core.SquallException;

import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.shadow.api.Shadow;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sessions over two networks, which are two loopback addresses, with a server in another process. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {26, 35}, manifest = Config.NONE, shadows = {ShadowDescriptor.class, ShadowBinding.class})
public class SessionTest {
    /** A deadline that can be met even on a busy machine. */
    private static final long SOON_MICROS = 20_000_000;

    /** Longest wait for an event, in milliseconds. */
    private static final long LIMIT_MILLIS = 60_000;

    private ConnectivityManager connectivity;
    private Peer peer;
    private Networks networks;
    private FakeNetwork wifi;
    private FakeNetwork cellular;

    @Before
    public void start() throws Exception {
        Application context = RuntimeEnvironment.getApplication();
        connectivity = context.getSystemService(ConnectivityManager.class);
        peer = new Peer();
        networks = Networks.request(context);
        wifi = new FakeNetwork(connectivity, Transport.WIFI, 200);
        cellular = new FakeNetwork(connectivity, Transport.CELLULAR, 100);
    }

    @After
    public void stop() {
        networks.close();
        peer.close();
        assertEquals("descriptors left open", 0, ShadowDescriptor.open);
    }

    private Session.Builder builder() {
        return new Session.Builder(peer.address).fingerprint(peer.fingerprint);
    }

    private Session connectOverBoth() throws Exception {
        wifi.comes("127.0.0.2", false);
        cellular.comes("127.0.0.3", true);
        Session session = builder().connect(networks, null);
        Eventually.holds("two paths", () -> session.paths().length == 2);
        return session;
    }

    private static ShadowBinding binding(FakeNetwork network) {
        return Shadow.extract(network.network);
    }

    private static PathInfo path(Session session, Transport transport) throws SquallException {
        for (PathInfo path : session.paths()) {
            if (path.network.equals(transport.label)) {
                return path;
            }
        }
        return null;
    }

    private static Event await(Session session, Event.Kind kind) throws SquallException {
        while (true) {
            Event event = session.poll(LIMIT_MILLIS);
            assertTrue("no " + kind, event != null);
            if (event.kind == kind) {
                return event;
            }
        }
    }

    private static ByteBuffer direct(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);
        buffer.put(bytes).flip();
        return buffer;
    }

    @Test
    public void blocksTravelOverBothNetworksEachBoundToItsSocketOnce() throws Exception {
        try (Session session = connectOverBoth()) {
            byte[] bytes = new byte[60_000];
            Arrays.fill(bytes, (byte) 2);
            long first = session.send(direct(bytes), SOON_MICROS, 0, true, 7);
            assertEquals("block 7 0 60000 120000", peer.next("block"));
            // The answer of the peer may overtake its report that the block was delivered.
            Event delivered = null;
            Event back = null;
            while (delivered == null || back == null) {
                Event event = session.poll(LIMIT_MILLIS);
                assertTrue("delivered: " + delivered + ", back: " + back, event != null);
                delivered = event.kind == Event.Kind.DELIVERED ? event : delivered;
                back = event.kind == Event.Kind.RECEIVED ? event : back;
            }
            assertEquals(first, delivered.block);
            assertEquals(7, back.channel);
            assertArrayEquals(bytes, back.data);

            assertEquals(1, binding(wifi).bound.size());
            assertEquals(1, binding(cellular).bound.size());
            String socket = binding(wifi).bound.get(0);
            assertTrue(socket, socket.startsWith("socket:["));
            assertNotEquals(socket, binding(cellular).bound.get(0));
            assertTrue(path(session, Transport.WIFI).local.startsWith("127.0.0.2:"));
            assertTrue(path(session, Transport.CELLULAR).local.startsWith("127.0.0.3:"));
            Eventually.holds("the price is known", () -> path(session, Transport.CELLULAR).metered);
            assertTrue(!path(session, Transport.WIFI).metered);
        }
        assertTrue(peer.next("closed").contains("closed by the peer"));
    }

    @Test
    public void everyKindOfBufferIsSentFromPositionToLimit() throws Exception {
        try (Session session = connectOverBoth()) {
            byte[] bytes = {9, 1, 2, 3, 9};
            ByteBuffer sliced = ByteBuffer.wrap(bytes).position(1).slice();
            ByteBuffer direct = direct(bytes);
            direct.position(1);
            for (ByteBuffer buffer : List.of(sliced, direct, sliced.duplicate().asReadOnlyBuffer())) {
                buffer.limit(buffer.position() + 3);
                session.send(buffer, Session.NO_DEADLINE, 3, true, 0);
                assertEquals(0, buffer.remaining());
                assertEquals("block 0 3 3 6", peer.next("block"));
            }
        }
    }

    @Test
    public void aNetworkThatReturnsIsBoundAgain() throws Exception {
        try (Session session = connectOverBoth()) {
            wifi.goes();
            Eventually.holds("Wi-Fi is gone", () -> path(session, Transport.WIFI) == null);
            assertEquals(List.of("cellular"), networks.available());
            session.send(direct(new byte[] {1}), SOON_MICROS, 0, true, 0);
            assertEquals("block 0 0 1 1", peer.next("block"));

            FakeNetwork other = new FakeNetwork(connectivity, Transport.WIFI, 201);
            other.comes("127.0.0.4", false);
            Eventually.holds("another Wi-Fi carries a path", () -> {
                PathInfo path = path(session, Transport.WIFI);
                return path != null && path.local.startsWith("127.0.0.4:");
            });
            assertEquals(1, binding(other).bound.size());
            // Another address of the same network takes another socket.
            other.hasAddress("127.0.0.5");
            Eventually.holds("the new address", () -> binding(other).bound.size() == 2);
            assertEquals(1, binding(cellular).bound.size());
        }
    }

    @Test
    public void aNetworkThatRefusesSocketsDoesNotStopTheOther() throws Exception {
        binding(wifi).refusal = "EPERM: the network is gone";
        wifi.comes("127.0.0.2", false);
        SquallException error = assertThrows(SquallException.class, () -> builder().connect(networks, null));
        assertTrue(error.getMessage(), error.getMessage().endsWith("wifi: EPERM: the network is gone"));
        cellular.comes("127.0.0.3", true);
        try (Session session = builder().connect(networks, null)) {
            session.send(direct(new byte[] {1}), SOON_MICROS, 0, true, 0);
            assertEquals("block 0 0 1 1", peer.next("block"));
            binding(wifi).refusal = null;
            Eventually.holds("it is tried again", () -> path(session, Transport.WIFI) != null);
        }
    }

    @Test
    public void aLateBlockExpires() throws Exception {
        wifi.comes("127.0.0.2", false);
        try (Session session = builder().connect(networks, null)) {
            peer.close();
            long block = session.send(direct(new byte[100]), 50_000, 0, true, 0);
            assertEquals(block, await(session, Event.Kind.EXPIRED).block);
        }
    }

    @Test
    public void aListenerReceivesEveryEventUpToTheEnd() throws Exception {
        Session session = connectOverBoth();
        BlockingQueue<Event> events = new LinkedBlockingQueue<>();
        session.listen(Runnable::run, events::add);
        assertThrows(IllegalStateException.class, () -> session.listen(Runnable::run, events::add));
        long block = session.send(direct(new byte[] {5}), SOON_MICROS, 1, false, 3);
        session.finish(LIMIT_MILLIS);
        boolean delivered = false;
        Event event;
        do {
            event = events.poll(LIMIT_MILLIS, TimeUnit.MILLISECONDS);
            assertTrue("the end is reported", event != null);
            delivered |= event.kind == Event.Kind.DELIVERED && event.block == block;
        } while (event.kind != Event.Kind.CLOSED);
        assertTrue(delivered);
    }

    @Test
    public void afterTheEndEverythingFailsAndNothingBreaks() throws Exception {
        Session session = connectOverBoth();
        session.close();
        session.close();
        ByteBuffer data = direct(new byte[] {1});
        SquallException error = assertThrows(SquallException.class, () -> session.send(data, 0, 0, true, 0));
        assertEquals("the session is closed", error.getMessage());
        assertEquals("the buffer is as it was", 1, data.remaining());
        assertThrows(SquallException.class, session::paths);
        assertThrows(SquallException.class, () -> session.poll(0));
        assertThrows(SquallException.class, () -> session.cancel(0));
        assertThrows(SquallException.class, () -> session.finish(0));
        assertThrows(SquallException.class, () -> session.setBudget(Transport.WIFI, 1));
        wifi.goes();
    }

    @Test
    public void mistakesAreReportedInOneLine() throws Exception {
        Session session = connectOverBoth();
        assertThrows(IllegalArgumentException.class, () -> session.send(direct(new byte[0]), 0, 0, true, 0));
        assertThrows(IllegalArgumentException.class, () -> session.send(direct(new byte[1]), 0, 8, true, 0));
        assertThrows(IllegalArgumentException.class, () -> session.send(direct(new byte[1]), 0, 300, true, 0));
        assertThrows(IllegalArgumentException.class, () -> session.send(direct(new byte[1]), 0, 0, true, 1024));
        assertThrows(IllegalArgumentException.class, () -> session.send(direct(new byte[1]), -1, 0, true, 0));
        SquallException large = assertThrows(SquallException.class,
                () -> session.send(ByteBuffer.allocateDirect((16 << 20) + 1), 0, 0, true, 0));
        assertTrue(large.getMessage(), large.getMessage().contains("exceeds the limit"));
        assertNull(large.getCause());
        session.close();

        assertThrows(IllegalArgumentException.class,
                () -> new Session.Builder(peer.address).connect(networks, null));
        IllegalArgumentException scheduler = assertThrows(IllegalArgumentException.class,
                () -> builder().scheduler("fastest").connect(networks, null));
        assertTrue(scheduler.getMessage(), scheduler.getMessage().contains("'fastest'"));
        SquallException pin = assertThrows(SquallException.class,
                () -> new Session.Builder(peer.address).fingerprint("00".repeat(32)).connect(networks, null));
        assertTrue(pin.getMessage(), pin.getMessage().contains("is not the pinned one"));
        SquallException roots = assertThrows(SquallException.class,
                () -> new Session.Builder(peer.address).platformRoots().connect(networks, null));
        assertTrue(roots.getMessage(), roots.getMessage().contains("is not trusted"));
    }

    @Test
    public void aFullQueueIsReportedAndSoIsTheRoomAfter() throws Exception {
        try (Session session = connectOverBoth()) {
            ByteBuffer block = ByteBuffer.allocateDirect(16 << 20);
            // The queue holds 64 MiB; blocks that leave meanwhile make room.
            assertThrows(QueueFullException.class, () -> {
                for (int i = 0; i < 100; i++) {
                    block.rewind();
                    session.send(block, Session.NO_DEADLINE, 0, true, 0);
                }
            });
            assertEquals("the buffer is as it was", 16 << 20, block.remaining());
            await(session, Event.Kind.WRITABLE);
        }
    }

    @Test
    public void withoutANetworkConnectingFailsInTime() throws Exception {
        SquallException error = assertThrows(SquallException.class,
                () -> builder().connectTimeout(100).connect(networks, null));
        assertEquals("no network within 100 ms", error.getMessage());
        wifi.comes("127.0.0.2", false);
        peer.close();
        SquallException silent = assertThrows(SquallException.class,
                () -> builder().connectTimeout(300).connect(networks, null));
        assertTrue(silent.getMessage(), silent.getMessage().startsWith("no answer from"));
    }

    @Test
    public void anInterruptCancelsConnecting() throws Exception {
        wifi.comes("127.0.0.2", false);
        peer.close();
        BlockingQueue<String> errors = new LinkedBlockingQueue<>();
        Thread connects = new Thread(() -> {
            try {
                builder().connectTimeout(LIMIT_MILLIS).connect(networks, null).close();
            } catch (SquallException error) {
                errors.add(error.getMessage());
            }
        });
        connects.start();
        Thread.sleep(200);
        connects.interrupt();
        assertEquals("interrupted while connecting", errors.poll(LIMIT_MILLIS / 2, TimeUnit.MILLISECONDS));
    }
}
