package dev.squall.android;

import static org.junit.Assert.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The server in a separate process, implemented with the Rust library. */
final class Peer implements AutoCloseable {
    final String address;
    final String fingerprint;
    private final Process process;
    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

    Peer() throws Exception {
        process = new ProcessBuilder(System.getProperty("squall.peer"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader output = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        Thread reader = new Thread(() -> {
            try {
                output.lines().forEach(lines::add);
            } catch (UncheckedIOException closed) {
                // The peer has been ended and prints no more.
            }
        });
        reader.setDaemon(true);
        reader.start();
        String[] words = next("listening").split(" ");
        address = words[1];
        fingerprint = words[2];
    }

    /** Returns the next line that starts with this text. */
    String next(String start) throws InterruptedException {
        while (true) {
            String line = lines.poll(30, TimeUnit.SECONDS);
            assertTrue("the peer says nothing of '" + start + "'", line != null);
            if (line.startsWith(start)) {
                return line;
            }
        }
    }

    @Override
    public void close() {
        process.destroy();
    }
}
