package dev.squall.android;

import dev.squall.core.SquallException;

import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** The authorities that Android, or the application's network security configuration, trusts. */
final class PlatformRoots {
    private PlatformRoots() {}

    static List<X509Certificate> list() throws SquallException {
        List<X509Certificate> roots = new ArrayList<>();
        try {
            TrustManagerFactory factory =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            factory.init((KeyStore) null);
            for (TrustManager manager : factory.getTrustManagers()) {
                if (manager instanceof X509TrustManager) {
                    roots.addAll(Arrays.asList(((X509TrustManager) manager).getAcceptedIssuers()));
                }
            }
        } catch (GeneralSecurityException error) {
            throw new SquallException("cannot read the authorities of this phone: " + error.getMessage());
        }
        return roots;
    }
}
