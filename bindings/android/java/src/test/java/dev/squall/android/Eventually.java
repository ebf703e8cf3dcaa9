package dev.squall.android;

import static org.junit.Assert.fail;

import java.util.concurrent.Callable;

/** Waits for effects of other threads. */
final class Eventually {
    private static final long LIMIT_MILLIS = 30_000;

    private Eventually() {}

    static void holds(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + LIMIT_MILLIS * 1_000_000;
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                fail("not within " + LIMIT_MILLIS + " ms: " + what);
            }
            Thread.sleep(10);
        }
    }
}
