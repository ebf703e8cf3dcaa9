package android.net.wifi;

/**
 * Stands for a class of newer versions of Android than are tested here, which Robolectric's shadow of
 * {@link WifiManager} names in a signature.
 */
public final class BlockingOption {
    private BlockingOption() {}
}
