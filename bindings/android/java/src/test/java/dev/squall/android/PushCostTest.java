package dev.squall.android;

import static org.junit.Assert.assertTrue;

import dev.squall.core.Native;

import org.junit.Test;

import java.util.Arrays;

/** Cost of passing a reading from a callback to the native library. */
public class PushCostTest {
    private static final int PUSHES = 100_000;

    /** STORM's budget for a signal to reach the transport is 80 µs; a quarter of it leaves room for slow cores. */
    private static final long MOST_NANOS = 20_000;

    @Test
    public void aPushTakesFarLessThanTheSignalPathMay() throws Exception {
        long radio = Native.radioOpen();
        long[] nanos = new long[PUSHES];
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < PUSHES; i++) {
                long before = System.nanoTime();
                boolean taken = Native.radioPush(radio, 4, false, 0, -100 - i % 10, -10, 12, -70);
                nanos[i] = System.nanoTime() - before;
                assertTrue(taken);
            }
        }
        Native.radioClose(radio);
        Arrays.sort(nanos);
        long median = nanos[PUSHES / 2];
        System.out.println("push over JNI: median " + median + " ns, 99 % " + nanos[PUSHES * 99 / 100] + " ns");
        assertTrue(median + " ns", median < MOST_NANOS);
    }
}
