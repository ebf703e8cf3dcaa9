package android.net.wifi;

/**
 * Placeholder for a class of newer versions of Android than are tested here, which Robolectric's shadow of
 * {@link WifiManager} uses in a signature.
 */
public final class BlockingOption {
    private BlockingOption() {}
}
